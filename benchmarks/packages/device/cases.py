"""Steps of attention as a scheduler makes them: ragged rows over pages that lie scattered in the pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from device.target import Heads
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs


def make_step(
    counts: Sequence[int], cached: Sequence[int], page_size: int, device: torch.device, seed: int = 0
) -> StepInputs:
    """Rows that compute ``counts`` tokens after ``cached`` ones each. Rows and pages are in random order."""
    random = np.random.default_rng(seed)
    lengths = np.array(counts, np.int32) + np.array(cached, np.int32)
    pages = -(-lengths // page_size)
    order = random.permutation(int(pages.sum()) + 1)[: pages.sum()]
    rows = random.permutation(len(counts) + 1)[: len(counts)].astype(np.int32)
    table = np.zeros((len(counts) + 1, int(pages.max(initial=1)) * page_size), np.int32)
    for row, own in zip(rows, np.split(order, np.cumsum(pages)[:-1]), strict=True):
        slots = (own[:, None] * page_size + np.arange(page_size)).ravel()
        table[row, : len(slots)] = slots
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    positions = np.arange(starts[-1]) - np.repeat(starts[:-1], counts) + np.repeat(np.array(cached), counts)
    slots = table[np.repeat(rows, counts), positions]

    def on_device(values: np.ndarray, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.from_numpy(values).to(device, dtype)

    return StepInputs(
        tokens=torch.zeros(int(starts[-1]), dtype=torch.int64, device=device),
        positions=on_device(positions, torch.int64),
        slots=on_device(slots, torch.int64),
        rows=on_device(rows),
        query_starts=on_device(starts),
        kv_lengths=on_device(lengths),
        page_table=on_device(table),
        host_starts=starts,
        host_lengths=lengths,
    )


def make_kv(step: StepInputs, heads: Heads, dtype: torch.dtype, page_size: int) -> LayerKV:
    """A pool with room for the step's rows and a page more, full of random numbers."""
    slots = int(-(-step.host_lengths // page_size).sum() + 1) * page_size
    device = step.tokens.device
    return LayerKV(
        torch.randn(slots, heads.kv, heads.key_dim, device=device, dtype=dtype),
        torch.randn(slots, heads.kv, heads.value_dim, device=device, dtype=dtype),
    )


def make_query(step: StepInputs, heads: Heads, dtype: torch.dtype) -> Tensor:
    """[T, heads, key_dim]."""
    return torch.randn(len(step.tokens), heads.query, heads.key_dim, device=step.tokens.device, dtype=dtype)
