"""Attention by FlashInfer (Ye et al. 2025), for the shapes that it has kernels for.

Written against flashinfer-python 0.7.4. It plans on the host, from each step's lengths, so that a recorded step cannot hold
it: those, and what it has no kernel for, are left to another attention.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sgframe_torch.graphs import FixedStep
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

if TYPE_CHECKING:
    from sgframe_cuda.ops import Attention

_WORKSPACE = 128 * 2**20
"""Bytes, as its documentation recommends. Shared by all wrappers, since they compute one after the other."""
_DTYPES = (torch.float16, torch.bfloat16)
_HEAD_DIMS = (64, 128, 256)


class _Layer(NamedTuple):
    """What a plan depends on beside the step."""

    heads: int
    kv_heads: int
    dim: int
    dtype: torch.dtype
    scale: float
    window: int
    softcap: float

    @property
    def grouped(self) -> bool:
        return self.heads > self.kv_heads


class _Plan(NamedTuple):
    """A wrapper, and when it has read the page-locked memory in which it planned."""

    wrapper: Any
    read: torch.cuda.Event


class _Pages(NamedTuple):
    """A step as FlashInfer wants it, with pages of one slot: ``indices`` on the device, the rest on the host (it asks there,
    and would wait for the device to read it): starts of queries and of pages by row, slots in each row's last page."""

    queries: Tensor
    starts: Tensor
    indices: Tensor
    last: Tensor


class FlashInferAttention:
    """See ``sgframe_torch.attention.paged_attention``. What ``other`` does in its place: recorded steps, float32, head sizes
    beside 64, 128 and 256, values of another size than keys."""

    def __init__(self, device: torch.device, other: Attention) -> None:
        self._library = import_module("flashinfer")
        self._workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=device)  # zeros, as its decode kernel wants
        self._other = other
        self._plans: dict[tuple[_Layer, bool], _Plan] = {}
        self._planned: set[_Layer] = set()

    def begin(self, step: StepInputs) -> None:
        self._other.begin(step)
        self._planned.clear()
        self._decodes = len(step.host_lengths) == step.host_starts[-1]
        if not isinstance(step, FixedStep):
            self._pages = _pages(step)

    def __call__(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        heads, dim = query.shape[1:]
        layer = _Layer(heads, kv.keys.shape[1], dim, query.dtype, scale, window, softcap)
        if isinstance(step, FixedStep) or not _served(layer, kv):
            return self._other(query, kv, step, scale, window, softcap)
        plan = self._plan(layer)
        return plan.wrapper.run(query, (kv.keys.unsqueeze(1), kv.values.unsqueeze(1)))  # type: ignore[no-any-return]

    def _plan(self, layer: _Layer) -> _Plan:
        """Planned for this step. Layers that are alike share a plan."""
        key = (layer, self._decodes)
        plan = self._plans.get(key) or self._plans.setdefault(key, self._new_plan(layer))
        if layer in self._planned:
            return plan
        plan.read.synchronize()  # it plans in the same page-locked memory again, which the device may be yet to read
        common = {
            "sm_scale": layer.scale,
            "window_left": layer.window - 1,  # -1 is none; it does not count the token itself
            "logits_soft_cap": layer.softcap,
            "q_data_type": layer.dtype,
            "kv_data_type": layer.dtype,
        }
        pages, sizes = self._pages, (layer.heads, layer.kv_heads, layer.dim, 1)
        if self._decodes:
            plan.wrapper.plan(pages.starts, pages.indices, pages.last, *sizes, **common)
        else:
            plan.wrapper.plan(pages.queries, pages.starts, pages.indices, pages.last, *sizes, causal=True, **common)
        plan.read.record()
        self._planned.add(layer)
        return plan

    def _new_plan(self, layer: _Layer) -> _Plan:
        library = self._library
        if self._decodes:
            wrapper = library.BatchDecodeWithPagedKVCacheWrapper(self._workspace, "NHD", use_tensor_cores=layer.grouped)
        else:
            wrapper = library.BatchPrefillWithPagedKVCacheWrapper(self._workspace, "NHD")
        return _Plan(wrapper, torch.cuda.Event())


def _served(layer: _Layer, kv: LayerKV) -> bool:
    return layer.dtype in _DTYPES and layer.dim in _HEAD_DIMS and kv.values.shape[-1] == layer.dim


def _pages(step: StepInputs) -> _Pages:
    """Each row's slots laid end to end, without asking the device for anything."""
    lengths = step.host_lengths
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    total = int(starts[-1])
    device = step.kv_lengths.device
    begins = step.kv_lengths.cumsum(0) - step.kv_lengths
    row = torch.repeat_interleave(step.kv_lengths, output_size=total)
    positions = torch.arange(total, device=device) - begins[row]
    return _Pages(
        queries=torch.from_numpy(step.host_starts),
        starts=torch.from_numpy(starts),
        indices=step.page_table[step.rows[row], positions],
        last=torch.ones(len(lengths), dtype=torch.int32),
    )
