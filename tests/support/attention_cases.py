"""Steps of paged attention to compare kernels on: ragged rows whose pages lie scattered among memory full of NaN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs


@dataclass
class Case:
    query: Tensor
    kv: LayerKV
    step: StepInputs


def step_of(counts: Sequence[int], lengths: Sequence[int], page_table: np.ndarray, rows: np.ndarray) -> StepInputs:
    """Rows that compute the last ``counts`` of ``lengths`` tokens."""
    starts, ends = np.cumsum([0, *counts], dtype=np.int32), np.array(lengths, np.int32)
    positions = np.arange(starts[-1]) + np.repeat(ends - starts[1:], counts)
    flat = torch.zeros(int(starts[-1]), dtype=torch.int64)
    return StepInputs(
        tokens=flat,
        positions=torch.from_numpy(positions.astype(np.int64)),
        slots=flat,
        rows=torch.from_numpy(rows.astype(np.int32)),
        query_starts=torch.from_numpy(starts),
        kv_lengths=torch.from_numpy(ends),
        page_table=torch.from_numpy(page_table.astype(np.int32)),
        host_starts=starts,
        host_lengths=ends,
    )


def attention_case(
    counts: Sequence[int],
    lengths: Sequence[int],
    heads: int = 2,
    kv_heads: int = 1,
    dims: tuple[int, int] = (16, 16),
    dtype: torch.dtype = torch.float32,
    page: int = 1,
    seed: int = 0,
) -> Case:
    """A step of ``counts`` and ``lengths`` on pages of ``page`` slots; ``dims`` are of keys and values."""
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    pages = [-(-length // page) for length in lengths]
    pool = 2 * sum(pages) + 3
    parts = np.split(random.permutation(pool), np.cumsum(pages))
    table = random.integers(pool * page, size=(len(counts) + 2, max(lengths, default=0) + 3))
    rows = random.permutation(len(table))[: len(counts)]
    keys, values = (torch.full((pool * page, kv_heads, dim), torch.nan, dtype=dtype) for dim in dims)
    for row, length, part in zip(rows, lengths, parts, strict=False):
        slots = (part[:, None] * page + np.arange(page)).ravel()[:length]
        table[row, :length] = slots
        keys[slots] = torch.randn(length, kv_heads, dims[0]).to(dtype)
        values[slots] = torch.randn(length, kv_heads, dims[1]).to(dtype)
    query = torch.randn(sum(counts), heads, dims[0]).to(dtype)
    return Case(query, LayerKV(keys, values), step_of(counts, lengths, table, rows))
