"""A double of torch_npu on the CPU: the operators that the ascend backend calls, with their prototypes and their rules,
in plain torch from the documented formulas. Written from the documentation alone; see docs/ascend.md."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from npu_attention import fused_infer_attention
from npu_device import Device
from npu_prototypes import Operator
from npu_rules import require
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
HALF = FLOATS[:2]


def _norm(x: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """y and 1 / rms, for x in float64."""
    reverse = (x.pow(2).mean(dim=-1, keepdim=True) + epsilon).rsqrt()
    return x * reverse * weight.double(), reverse.float()


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    require(x.dtype in FLOATS and 2 <= x.dim() <= 8, "norm type", f"{x.dtype} of {x.dim()} dimensions")
    require(gamma.dtype == x.dtype and gamma.shape == x.shape[-1:], "norm weight", f"{gamma.dtype} {gamma.shape}")
    y, reverse = _norm(x.double(), gamma, epsilon)
    return y.to(x.dtype), reverse


def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    require(x1.dtype in HALF and x1.numel(), "added norm", f"{x1.dtype} of {x1.numel()}")
    require(x1.dtype == x2.dtype and x1.shape == x2.shape, "added alike", f"{x2.dtype} {x2.shape}")
    require(gamma.dtype == x1.dtype and gamma.shape == x1.shape[-1:], "norm weight", f"{gamma.dtype} {gamma.shape}")
    total = x1.double() + x2.double()
    y, reverse = _norm(total, gamma, epsilon)
    return y.to(x1.dtype), reverse, total.to(x1.dtype)


def swiglu(x: Tensor, dim: int = -1) -> Tensor:
    require(x.dtype in FLOATS, "gate type", x.dtype)
    gate, up = x.double().chunk(2, dim=dim)
    return (gate * gate.sigmoid() * up).to(x.dtype)


def apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND", rotary_mode: str = "half"
) -> tuple[Tensor, Tensor]:
    require(layout in ("BSND", "TND") and query.dim() == len(layout), "rotary layout", f"{layout} of {query.shape}")
    require(rotary_mode == "half", "rotary mode", rotary_mode)
    dims = {each.shape[-1] for each in (query, key, cos, sin)}
    require(dims in ({64}, {128}) and query.numel() and key.numel(), "rotary dim", dims)
    require(len({each.dtype for each in (query, key, cos, sin)}) == 1, "rotary types", f"{query.dtype} and {cos.dtype}")
    angles = (*query.shape[:-2], 1, query.shape[-1])
    require(cos.shape == sin.shape == angles, "rotary angles", f"{tuple(cos.shape)} for {tuple(query.shape)}")
    require(key.shape[:-2] == query.shape[:-2], "rotary angles", f"{tuple(key.shape)} for {tuple(query.shape)}")
    for x in (query, key):
        first, second = x.double().chunk(2, dim=-1)
        x.copy_(x.double() * cos.double() + torch.cat((-second, first), dim=-1) * sin.double())
    return query.clone(), key.clone()  # a schema without (a!) may not return what it was given


def scatter_pa_kv_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor, **options: Any
) -> None:
    mode = options.pop("cache_mode", "PA_NZ")
    require(mode == "Norm" and not options, "scatter mode", f"{mode} {options}")
    tensors = (key, value, key_cache, value_cache, slots)
    require(all(each.is_contiguous() for each in tensors), "scatter contiguous", [each.stride() for each in tensors])
    require(len({each.dtype for each in tensors[:4]}) == 1, "scatter types", [each.dtype for each in tensors[:4]])
    require(slots.dtype in (torch.int32, torch.int64), "scatter slots", slots.dtype)
    for new, cache in ((key, key_cache), (value, value_cache)):
        fits = new.dim() == 3 and cache.dim() == 4 and cache.shape[2:] == new.shape[1:] and slots.shape == new.shape[:1]
        require(fits, "scatter layout", f"{tuple(cache.shape)} for {tuple(new.shape)} and {tuple(slots.shape)}")
        most = cache.shape[0] * cache.shape[1]
        within = bool(((slots >= 0) & (slots < most)).all()) and len(slots.unique()) == len(slots)
        require(within, "scatter range", f"{slots.tolist()} of {most}")
        cache.flatten(0, 1)[slots.long()] = new


OPERATORS = {
    "npu_add_rms_norm": Operator("npu_add_rms_norm", add_rms_norm),
    "npu_apply_rotary_pos_emb": Operator("npu_apply_rotary_pos_emb", apply_rotary_pos_emb),
    "npu_fused_infer_attention_score": Operator("npu_fused_infer_attention_score", fused_infer_attention),
    "npu_rms_norm": Operator("npu_rms_norm", rms_norm),
    "npu_scatter_pa_kv_cache": Operator("npu_scatter_pa_kv_cache", scatter_pa_kv_cache),
    "npu_swiglu": Operator("npu_swiglu", swiglu),
}


def double() -> ModuleType:
    """A fresh module in place of torch_npu. Its operators are those of OPERATORS, and remember their calls."""
    module = ModuleType("torch_npu")
    for name, operator in OPERATORS.items():
        operator.calls.clear()
        setattr(module, name, operator)
    module.npu = Device()  # type: ignore[attr-defined]
    return module
