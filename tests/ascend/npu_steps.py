"""Steps with scattered pages, and KV that is NaN wherever no row has a token."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch

from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

SPARE_ROWS = 2


def step_of(rows: Sequence[tuple[int, int]], page_size: int, *, paged: bool = True, seed: int = 0) -> StepInputs:
    """A step whose rows are (tokens computed, tokens in KV); without ``paged`` their tokens lie in single slots."""
    rng = random.Random(seed)
    counts, lengths = (np.array(each, dtype=np.int32) for each in zip(*rows, strict=True))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    numbers = rng.sample(range(len(rows) + SPARE_ROWS), len(rows))
    width = -(-int(lengths.max()) // page_size) * page_size
    size = page_size if paged else 1
    units = rng.sample(range((len(rows) + SPARE_ROWS) * width // size), (len(rows) + SPARE_ROWS) * width // size)
    slots = (np.array(units)[:, None] * size + np.arange(size)).reshape(len(rows) + SPARE_ROWS, width)
    positions = np.concatenate([np.arange(end - count, end) for count, end in rows])
    computed = [slots[number, end - count : end] for number, (count, end) in zip(numbers, rows, strict=True)]
    return StepInputs(
        tokens=torch.zeros(len(positions), dtype=torch.int64),
        positions=torch.from_numpy(positions),
        slots=torch.from_numpy(np.concatenate(computed)),
        rows=torch.tensor(numbers, dtype=torch.int32),
        query_starts=torch.from_numpy(starts),
        kv_lengths=torch.from_numpy(lengths),
        page_table=torch.from_numpy(slots.astype(np.int32)),
        host_starts=starts,
        host_lengths=lengths,
        paged=paged,
    )


class KVPool:
    """``kv`` with random keys and values for every token of ``step``."""

    def __init__(self, step: StepInputs, heads: int, dim: int, dtype: torch.dtype) -> None:
        self.kv = LayerKV(*torch.full((2, step.page_table.numel(), heads, dim), torch.nan, dtype=dtype))
        for row, length in zip(step.rows.tolist(), step.host_lengths.tolist(), strict=True):
            slots = step.page_table[row, :length].long()
            for stored in self.kv:
                stored[slots] = torch.randn(length, heads, dim).to(dtype)
