"""Paged attention on processor cores: plans a step's items and starts the compiled kernels.

Agrees with ``sgframe_torch.attention.paged_attention``, which defines it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from sgframe_cpu.attention_items import ITEMS, MERGES
from sgframe_cpu.attention_kernels import attend, kernels_of, merge
from sgframe_cpu.attention_plan import Plan
from sgframe_cpu.launch import Launch
from sgframe_cpu.team import Team
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

_LOG2E = 1.4426950408889634
_MERGE_GRAIN = 16


class NumbaAttention:
    """Plans once a step, computes once a layer. What is recorded reads plans that are filled anew in each step."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._recorded: dict[tuple[int, int], Plan] = {}
        self._plans: dict[tuple[int, int], Plan] = {}

    def begin(self, step: StepInputs) -> None:
        """Plan what is recorded, and forget the other plans of the step before."""
        self._plans = {}
        for plan in self._recorded.values():
            if len(step.tokens) <= plan.tokens:
                _fill(plan, step)

    def __call__(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``."""
        (tokens, heads, key_dim), (kv_heads, value_dim) = (query.shape, kv.values.shape[1:])
        query, plan, element = (query.contiguous(), self._plan(step, heads, kv_heads), element_of(query))
        output = self._team.empty(tokens, heads, value_dim, like=query)
        partials = plan.partials(heads, value_dim).ctypes.data
        items, merges = plan.header[ITEMS:], plan.header[MERGES:]
        tensors = (each.data_ptr() for each in (query, kv.keys, kv.values, output))
        plans = (each.ctypes.data for each in (plan.header, plan.items, plan.queries))
        factors = _factors(scale, softcap).ctypes.data
        sizes = heads, kv_heads, window
        arguments = (*tensors, *plans, partials, factors, *sizes, *kernels_of(element, key_dim, value_dim))
        self._team.start(Launch(attend(), arguments, items.ctypes.data), items)
        arguments = (
            plan.merges.ctypes.data,
            partials,
            _merge_factor(scale, softcap).ctypes.data,
            output.data_ptr(),
            heads,
        )
        self._team.start(Launch(merge(element, value_dim), arguments, merges.ctypes.data, grain=_MERGE_GRAIN), merges)
        return output

    def _plan(self, step: StepInputs, heads: int, kv_heads: int) -> Plan:
        recording = self._team.recording
        plans = self._plans if recording is None else self._recorded
        if (heads, kv_heads) not in plans:
            tokens = len(step.tokens) if recording is None else recording.most_tokens
            plans[heads, kv_heads] = Plan(tokens, heads // kv_heads, kv_heads, self._team.threads)
            if recording is None:
                _fill(plans[heads, kv_heads], step)
        return plans[heads, kv_heads]


def _fill(plan: Plan, step: StepInputs) -> None:
    plan.fill(step.rows.numpy(), step.host_starts, step.host_lengths, step.page_table.numpy())


@cache
def _factors(scale: float, softcap: float) -> np.ndarray:
    """Of scores: to the exponent of 2, and what ``bound`` takes."""
    rate = 2 * _LOG2E * scale / softcap if softcap else 0.0
    return np.array([_LOG2E if softcap else scale * _LOG2E, rate, softcap], np.float32)


@cache
def _merge_factor(scale: float, softcap: float) -> np.ndarray:
    """Of the largest scores of parts: to the exponent of e."""
    return np.array([1.0 if softcap else scale], np.float32)


def element_of(tensor: Tensor) -> type:
    """What the kernels see as its elements: bfloat16 comes as uint16."""
    return np.uint16 if tensor.dtype == torch.bfloat16 else np.float32
