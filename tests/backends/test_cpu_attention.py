"""The compiled paged attention agrees with its plain definition, and that one with torch's own attention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from sgframe_cpu.attention import NumbaAttention
from sgframe_cpu.team import Team
from sgframe_torch.attention import paged_attention
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

DIM = 16


@dataclass
class Case:
    query: torch.Tensor
    kv: LayerKV
    step: StepInputs

    def compiled(self, threads=2, **options):
        attention = NumbaAttention(Team(threads))
        attention.begin(self.step)
        return attention(self.query, self.kv, self.step, DIM**-0.5, **options)

    def plain(self, **options):
        return paged_attention(self.query, self.kv, self.step, DIM**-0.5, **options)


def case(counts, lengths, heads=6, kv_heads=2, dtype=torch.float32, seed=0, common=()):
    """Rows that compute the last ``counts`` of ``lengths`` tokens, in scattered slots among others' garbage. ``common``:
    (row, other row, n): the first n slots of the one are those of the other."""
    torch.manual_seed(seed)
    pool, rows, total = 2 * sum(lengths) + 8, len(counts) + 3, sum(counts)
    slots = torch.randperm(pool).int()
    page_table = torch.randint(pool, (rows, max(lengths) + 5), dtype=torch.int32)
    which = torch.randperm(rows)[: len(counts)].int()
    for row, part, length in zip(which.tolist(), slots.split([*lengths, pool - sum(lengths)]), lengths, strict=False):
        page_table[row, :length] = part
    for row, other, count in common:
        page_table[which[row], :count] = page_table[which[other], :count]
    step = StepInputs(
        tokens=torch.zeros(total, dtype=torch.int64),
        positions=torch.cat([torch.arange(n - c, n) for c, n in zip(counts, lengths, strict=True)]),
        slots=torch.zeros(total, dtype=torch.int64),
        rows=which,
        query_starts=torch.tensor(np.cumsum([0, *counts]), dtype=torch.int32),
        kv_lengths=torch.tensor(lengths, dtype=torch.int32),
        page_table=page_table,
        host_starts=np.cumsum([0, *counts], dtype=np.int32),
        host_lengths=np.array(lengths, np.int32),
    )
    kv = LayerKV(*(torch.randn(pool, kv_heads, DIM).to(dtype) for _ in range(2)))
    return Case(torch.randn(total, heads, DIM).to(dtype), kv, step)


def close(ours, theirs, tolerance=1e-5):
    torch.testing.assert_close(ours.float(), theirs.float(), atol=tolerance, rtol=0)


MIXES = {
    "one decode": ([1], [33]),
    "first token": ([1], [1]),
    "many decodes": ([1] * 9, [1, 2, 63, 64, 65, 100, 128, 129, 300]),
    "prefill": ([150], [150]),
    "chunk": ([40], [170]),
    "short chunks": ([2, 3, 5], [50, 3, 64]),
    "mixed": ([1, 70, 1, 4, 33], [80, 70, 5, 90, 40]),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4), (12, 1)])
def test_agrees_with_the_definition(mix, heads, kv_heads):
    it = case(*MIXES[mix], heads, kv_heads)
    close(it.compiled(), it.plain())


def test_more_heads_to_a_group_than_an_item_takes():
    it = case([2, 9], [40, 9], heads=71, kv_heads=1)
    close(it.compiled(), it.plain())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("key_dim", "value_dim"), [(10, 6), (24, 40), (80, 80), (192, 128)])
def test_heads_of_any_size(key_dim, value_dim, dtype):
    it = case(*MIXES["mixed"], dtype=dtype)
    it.query = torch.randn(len(it.query), 6, key_dim).to(dtype)
    pool = len(it.kv.keys)
    it.kv = LayerKV(torch.randn(pool, 2, key_dim).to(dtype), torch.randn(pool, 2, value_dim).to(dtype))
    close(it.compiled(), it.plain(), tolerance=1e-5 if dtype == torch.float32 else 2**-5)


@pytest.mark.parametrize("window", [1, 7, 64, 1000])
def test_sliding_window(window):
    it = case(*MIXES["mixed"])
    close(it.compiled(window=window), it.plain(window=window))


def test_softcap():
    it = case(*MIXES["mixed"])
    close(it.compiled(softcap=2.0), it.plain(softcap=2.0))


@pytest.mark.parametrize("window", [0, 600])
def test_long_single_row_is_split_among_threads_and_joined(window):
    it = case([1], [2100])
    close(it.compiled(window=window), it.plain(window=window))


FAMILIES = {
    "decodes": ([1] * 5, [300, 310, 305, 400, 90], [(1, 0, 290), (2, 0, 299), (3, 0, 299)]),
    "suffixes": ([30, 20, 40, 5], [400, 390, 410, 350], [(1, 0, 350), (2, 0, 350), (3, 0, 340)]),
    "a decode beside suffixes": ([1, 33, 1], [200, 230, 220], [(1, 0, 190), (2, 0, 190)]),
    "two families": ([1] * 6, [200] * 6, [(2, 0, 150), (4, 0, 190), (3, 1, 180), (5, 1, 170)]),
    "one within another": ([1] * 6, [500] * 6, [(i, 0, 100) for i in range(1, 6)] + [(4, 3, 480), (5, 3, 490)]),
    "too little in common": ([1] * 3, [200] * 3, [(1, 0, 9), (2, 0, 9)]),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("window", [0, 120])
def test_a_common_prefix_is_read_once_and_joined_with_the_rest(family, window):
    counts, lengths, common = FAMILIES[family]
    it = case(counts, lengths, common=common)
    close(it.compiled(window=window), it.plain(window=window))


def test_bfloat16_of_a_family_differs_only_by_its_rounding():
    counts, lengths, common = FAMILIES["suffixes"]
    it = case(counts, lengths, dtype=torch.bfloat16, common=common)
    close(it.compiled(), it.plain(), tolerance=2**-7)


def test_what_is_recorded_is_planned_anew_for_each_step():
    team = Team(2)
    attention, query, kv = NumbaAttention(team), torch.empty(256, 6, DIM), LayerKV(*torch.zeros(2, 4096, 2, DIM))
    with team.record(256) as recording:
        output = attention(query, kv, case(*MIXES["mixed"]).step, DIM**-0.5)
    for mix in ("mixed", "many decodes", "one decode", "prefill"):
        it = case(*MIXES[mix])
        for kept, new in zip(kv, it.kv, strict=True):
            kept[: len(new)] = new
        query[: len(it.query)] = it.query
        attention.begin(it.step)
        recording(len(it.query))
        close(output[: len(it.query)], it.plain())


def test_more_threads_than_work():
    it = case(*MIXES["short chunks"])
    close(it.compiled(threads=7), it.plain())


def test_bfloat16_differs_only_by_its_rounding():
    it = case(*MIXES["mixed"], dtype=torch.bfloat16)
    close(it.compiled(), it.plain(), tolerance=2**-7)


def test_nan_reaches_its_own_row_and_no_other():
    it = case([1, 1], [70, 70])
    poisoned = it.step.page_table[it.step.rows[0], 5]
    it.kv.keys[poisoned] = torch.nan
    output = it.compiled()
    assert output[0].isnan().all()
    assert output[1].isfinite().all()


@pytest.mark.parametrize("window", [0, 9])
def test_the_definition_agrees_with_torch(window):
    it = case([30], [50])
    slots = it.step.page_table[it.step.rows[0], :50]
    distance = torch.arange(20, 50)[:, None] - torch.arange(50)
    mask = (distance >= 0) & (distance < (window or 50))
    query, keys, values = (x.transpose(0, 1) for x in (it.query, it.kv.keys[slots], it.kv.values[slots]))
    theirs = F.scaled_dot_product_attention(query, keys, values, mask, enable_gqa=True)
    close(it.plain(window=window), theirs.transpose(0, 1))
