"""The operations a model is made of, in plain torch. A device backend subclasses DeviceOps and overrides what it has
a better kernel for; the plain versions stay the reference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sgframe_torch.attention import paged_attention
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

Linear = Callable[[Tensor], Tensor]
"""[T, in] → [T, out]."""


class QKNorm(NamedTuple):
    """Weights [dim] of the norms of each query and key head (Qwen3)."""

    query: Tensor
    key: Tensor
    eps: float


class DeviceOps(ABC):
    """One device: its memory and its kernels. All activations are flat, [T, …], without a batch dimension."""

    device: torch.device
    dtypes: tuple[str, ...]
    """Names of the dtypes a model may have here, the preferred one first."""

    @abstractmethod
    def available_memory(self) -> int:
        """Bytes that could be allocated now."""

    @abstractmethod
    def kv_budget(self, available: int) -> int:
        """Bytes to give to KV, out of ``available``, when the settings leave it open."""

    def repacks(self, dtype: torch.dtype) -> bool:
        """Whether ``linear`` makes a copy of weights of ``dtype`` in a layout of its own."""
        return False

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        """A linear layer that takes over ``weight`` [out, in]; the caller drops its own reference."""
        return partial(F.linear, weight=weight, bias=bias)

    def begin(self, step: StepInputs) -> None:  # noqa: B027 (most devices have nothing to plan)
        """Called once before the layers of a step, for work that all of them share."""

    def attention(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``."""
        return paged_attention(query, kv, step, scale, window, softcap)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Root mean square norm over the last dimension (Zhang & Sennrich 2019), computed in float32."""
        return (F.rms_norm(x.float(), (x.shape[-1],), eps=eps)).to(x.dtype) * weight

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Add ``x`` to ``residual`` in place, and return the norm of the sum."""
        residual += x
        return self.rms_norm(residual, weight, eps)

    def silu_mul(self, gate_up: Tensor) -> Tensor:
        """SiLU(gate) · up, for [T, 2 · width] holding both side by side (Shazeer 2020, SwiGLU)."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def rotate_and_store(
        self, qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
    ) -> Tensor:
        """Split ``qkv`` [T, (heads + 2 · KV heads) · dim] into queries, keys and values; normalise and turn queries and
        keys by ``rotary`` (cosines, sines: [T, dim / 2] float32); write keys and values to ``slots`` [T] of ``kv``.
        Returns the queries [T, heads, dim]."""
        kv_heads, dim = kv.keys.shape[1:]
        query, key, value = qkv.unflatten(-1, (-1, dim)).tensor_split([-2 * kv_heads, -kv_heads], dim=1)
        if norm:
            query, key = self.rms_norm(query, norm.query, norm.eps), self.rms_norm(key, norm.key, norm.eps)
        kv.store(slots, rotate(key, *rotary), value)
        return rotate(query, *rotary)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding (Su et al. 2021) of [T, heads, dim], whose halves hold the pairs."""
    cos, sin = cos[:, None], sin[:, None]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
