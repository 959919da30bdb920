"""Paged attention on processor cores: cuts a step into tasks for the compiled kernels and calls them.

Agrees with ``sgframe_torch.attention.paged_attention``, which defines it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sgframe_cpu.attention_kernels import LANES, attend, merge
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

SPLIT = 256
"""Fewest keys worth a task of their own when a single query's keys are split among threads."""

Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks [n, 7] of a step, costliest first, and the ``merges`` [m, 3] of its split queries (see the kernels)."""

    tasks: Ints32
    merges: Ints32
    partials: int


class NumbaAttention:
    """Plans once a step, computes once a layer, on ``threads`` threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._plans: dict[tuple[int, int], Plan] = {}

    def begin(self, step: StepInputs) -> None:
        """Forget the plans of the step before."""
        self._plans = {}

    def __call__(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``."""
        output = query.new_empty(*query.shape[:2], kv.values.shape[-1])
        plan = self._plan(step, query.shape[1], kv.keys.shape[1])
        partials = np.empty((plan.partials, output.shape[1], output.shape[2] + 2), np.float32)
        scalars = np.array((scale, softcap), np.float32)
        query, table = query.contiguous(), step.page_table
        element, (key_dim, value_dim) = element_of(query), (kv.keys.shape[2], kv.values.shape[2])
        run, join = attend(element, key_dim, value_dim), merge(element, value_dim)  # both ready once the first step ran
        run(
            self._threads,
            self._threads,
            query.data_ptr(),
            kv.keys.data_ptr(),
            kv.values.data_ptr(),
            output.data_ptr(),
            table.data_ptr(),
            plan.tasks.ctypes.data,
            partials.ctypes.data,
            scalars.ctypes.data,
            *query.shape[:2],
            *kv.keys.shape[:2],
            *table.shape,
            len(plan.tasks),
            plan.partials,
            window,
            self._threads,
        )
        if plan.partials:
            merges = len(plan.merges), 1
            sizes = plan.partials, output.shape[1], len(output)
            join(*merges, partials.ctypes.data, plan.merges.ctypes.data, output.data_ptr(), *sizes)
        return output

    def _plan(self, step: StepInputs, heads: int, kv_heads: int) -> Plan:
        if (heads, kv_heads) not in self._plans:
            self._plans[heads, kv_heads] = plan_tasks(step, heads // kv_heads, kv_heads, self._threads)
        return self._plans[heads, kv_heads]


def plan_tasks(step: StepInputs, group: int, kv_heads: int, threads: int) -> Plan:
    """Cut each row into blocks of queries, and the keys of lone queries into parts when there is too little to share."""
    rows, starts, lengths = (each.numpy() for each in (step.rows, step.query_starts, step.kv_lengths))
    counts = np.diff(starts)
    block = max(1, LANES // group)
    blocks = -(-counts // block)
    row = np.repeat(np.arange(len(rows)), blocks)
    offset = (np.arange(len(row)) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * block
    queries = np.minimum(block, counts[row] - offset)
    position = lengths[row] - counts[row] + offset
    nothing = np.zeros_like(row)
    tasks = np.stack(
        [rows[row], starts[row] + offset, queries, position, nothing, position + queries, nothing - 1], axis=1
    )
    tasks = tasks.astype(np.int32)
    merges = np.empty((0, 3), np.int32)
    if len(tasks) * kv_heads < 2 * threads:
        tasks, merges = _split_keys(tasks, threads)
    order = np.argsort(-tasks[:, 2] * (tasks[:, 5] - tasks[:, 4]), kind="stable")
    return Plan(np.ascontiguousarray(tasks[order]), merges, int(merges[:, 2].sum()))


def _split_keys(tasks: Ints32, threads: int) -> tuple[Ints32, Ints32]:
    split: list[list[int]] = []
    merges: list[list[int]] = []
    partials = 0
    for row, query, queries, position, begin, end, _ in tasks.tolist():
        parts = min(2 * threads, end // SPLIT) if queries == 1 else 1
        if parts < 2:
            split.append([row, query, queries, position, begin, end, -1])
            continue
        edges = np.linspace(begin, end, parts + 1, dtype=int).tolist()
        split += [[row, query, 1, position, *edges[i : i + 2], partials + i] for i in range(parts)]
        merges.append([query, partials, parts])
        partials += parts
    return np.array(split, np.int32).reshape(-1, 7), np.array(merges, np.int32).reshape(-1, 3)


def element_of(tensor: Tensor) -> type:
    """What the kernels see as its elements: bfloat16 comes as uint16."""
    return np.uint16 if tensor.dtype == torch.bfloat16 else np.float32
