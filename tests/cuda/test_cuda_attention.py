"""The attention kernels, interpreted, agree with the plain definition, and a step is cut as it should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import Case, attention_case, step_of

from sgframe.errors import ModelError
from sgframe_torch.attention import paged_attention

pytest.importorskip("triton", reason="Triton is for Linux")

from sgframe_cuda.attention import TritonAttention, cut_rows
from sgframe_cuda.kernels.decode import COLUMNS, plan
from sgframe_cuda.tiles import Tile, Tiles, choose_tiles

SMALL = Tiles(extend=Tile(16, 16, 4, 2), decode=Tile(16, 16, 4, 2))
"""So that small cases have several blocks of everything."""
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of the largest value: a few roundings of float32; with 16 bits, those of the weights and of the result."""


def attend(case: Case, tiles: Tiles | None = SMALL, **options: float) -> torch.Tensor:
    attention = TritonAttention(torch.device("cpu"), tiles)
    attention.begin(case.step)
    return attention(case.query, case.kv, case.step, case.query.shape[-1] ** -0.5, **options)


def assert_agrees(case: Case, tiles: Tiles | None = SMALL, **options: float) -> None:
    ours = attend(case, tiles, **options)
    theirs = paged_attention(case.query, case.kv, case.step, case.query.shape[-1] ** -0.5, **options)
    assert ours.dtype == theirs.dtype
    limit = TOLERANCE[ours.dtype] * theirs.abs().max().item()
    torch.testing.assert_close(ours.float(), theirs.float(), atol=limit, rtol=0)


# ---------------------------------------------------------------------------------------------- agreement


def test_rows_of_one_few_and_many_tokens_in_one_step():
    assert_agrees(attention_case([1, 9, 0, 3], [20, 20, 9, 10]))


def test_one_long_row_is_split_and_merged():
    assert_agrees(attention_case([1], [300]))


def test_a_window_with_softcap():
    assert_agrees(attention_case([1, 9], [20, 30], page=16), window=10, softcap=2.0)


def test_heads_of_odd_sizes_in_odd_groups():
    assert_agrees(attention_case([1, 9], [20, 9], heads=3, dims=(20, 12)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sixteen_bits(dtype):
    assert_agrees(attention_case([1, 10], [20, 10], dtype=dtype))


def test_a_step_without_rows():
    assert attend(attention_case([], [])).shape == (0, 2, 16)


MIXES = {
    "one decode": ([1], [33]),
    "first token": ([1], [1]),
    "decodes": ([1] * 6, [1, 2, 15, 16, 17, 300]),
    "prefill": ([50], [50]),
    "chunk after a long prefix": ([20], [400]),
    "few tokens": ([2, 3, 8], [50, 3, 64]),
    "mixed": ([1, 30, 1, 4, 9, 2], [80, 30, 5, 60, 40, 100]),
    "rows without tokens": ([0, 1, 0, 12, 0], [9, 7, 3, 20, 1]),
}
HEADS = {"one each": (3, 3), "groups of four": (8, 2), "one for all": (5, 1), "more than a tile": (20, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"window": 7}, {"softcap": 3.0}, {"window": 40, "softcap": 3.0}], ids=str)
@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_of_rows(mix, options):
    assert_agrees(attention_case(*MIXES[mix], page=16), **options)


@pytest.mark.slow
@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("mix", ["few tokens", "mixed"])
def test_every_layout_of_heads(mix, heads):
    assert_agrees(attention_case(*MIXES[mix], *HEADS[heads]), window=30)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "dims", [(64, 64), (80, 80), (96, 96), (128, 128), (192, 128), (256, 256), (512, 512)], ids=str
)
def test_the_tiles_of_a_gpu(dims, dtype):
    assert_agrees(attention_case([1, 70, 2], [300, 200, 130], 4, 1, dims, dtype), tiles=None)


# ------------------------------------------------------------------------------------------- cutting a step


def test_steps_of_single_tokens_read_their_lengths_on_the_device():
    case = attention_case([1, 1], [150, 20])
    assert_agrees(replace(case, step=replace(case.step, host_lengths=np.ones(2, np.int32))))


def test_the_kernels_of_a_second_layer_take_the_plans_of_the_first():
    case, attention = attention_case([1, 9], [20, 9]), TritonAttention(torch.device("cpu"), SMALL)
    attention.begin(case.step)
    first = attention(case.query, case.kv, case.step, 0.25)
    assert attention(case.query, case.kv, case.step, 0.25).equal(first)


def test_another_step_is_planned_anew():
    attention = TritonAttention(torch.device("cpu"), SMALL)
    for lengths in ([20], [7]):
        case = attention_case([1], lengths)
        attention.begin(case.step)
        ours = attention(case.query, case.kv, case.step, 0.25)
        torch.testing.assert_close(ours, paged_attention(case.query, case.kv, case.step, 0.25), atol=1e-5, rtol=0)


def test_blocks_that_see_the_most_come_first():
    step = step_of([1, 10, 0, 5, 2], [9, 10, 4, 40, 30], np.zeros((5, 40)), np.arange(5))
    few, blocks = cut_rows(step, most=2, block=4)
    assert few.tolist() == [0, 4]
    assert blocks.tolist() == [[3, 4], [3, 0], [1, 8], [1, 4], [1, 0]]


def plan_of(lengths: list[int], target: int, window: int = 0) -> tuple[list[list[int]], list[int]]:
    """The (line of the page table, begin, end) of all tasks, and the first of each row; parts of 16, 32 at least."""
    step = step_of([1] * len(lengths), lengths, np.zeros((len(lengths), 1)), np.arange(len(lengths)) + 5)
    rows = len(lengths)
    tasks = torch.full((rows + target, COLUMNS.value), -1, dtype=torch.int32)
    parts = torch.empty(rows + 1, dtype=torch.int32)
    indices = torch.arange(rows, dtype=torch.int32), step.rows, step.query_starts, step.kv_lengths
    plan[rows,](tasks, parts, *indices, rows, len(tasks), target, LEAST=32, UNIT=16, WINDOW=window)
    return [task for task in tasks[:, [2, 4, 5]].tolist() if task[1] < task[2]], parts.tolist()


def test_a_short_row_is_one_part_and_a_long_one_many():
    tasks, parts = plan_of([10, 100], target=4)
    assert tasks == [[5, 0, 10], [6, 0, 32], [6, 32, 64], [6, 64, 96], [6, 96, 100]]
    assert parts == [0, 1, 5]


def test_a_row_is_split_into_even_parts():
    assert plan_of([70], target=2)[0] == [[5, 0, 48], [5, 48, 70]]
    assert plan_of([96], target=2)[0] == [[5, 0, 48], [5, 48, 96]]


def test_nothing_is_planned_before_the_window():
    assert plan_of([100, 8], target=2, window=40)[0] == [[5, 60, 92], [5, 92, 100], [6, 0, 8]]


def test_heads_that_are_too_large_are_refused_with_their_size():
    with pytest.raises(ModelError, match="up to 512 dimensions, this model's have 576"):
        choose_tiles((9, 0), 2, 576)
