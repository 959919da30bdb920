"""The small operations of a model and the choice of tokens, by kernels: one each, two for ``draw``.

Each function agrees with the plain version of its name in ``sgframe_torch.ops`` and ``sgframe_torch.drawing``, which
define them. None waits for the device, and all can be captured in a graph. What a tensor's last dimension holds must lie
side by side; other strides are free.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from sgframe_cuda.kernels import activation as activation_kernels
from sgframe_cuda.kernels import mask as mask_kernels
from sgframe_cuda.kernels import norm as norm_kernels
from sgframe_cuda.kernels import rotary as rotary_kernels
from sgframe_cuda.kernels import sampling as sampling_kernels
from sgframe_torch.drawing import Draws
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm

ROTARY_HEADS = 8
SILU_BLOCK = 1024
MASK_WORDS = 128
SAMPLING_BLOCK = 8192
"""Tokens of a row that ``draw`` looks at at once."""


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    output = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows = x if x.dim() == 3 else x.flatten(0, -2)[:, None]
    outer, inner, width = rows.shape
    block = triton.next_power_of_2(width)
    norm_kernels.rms_norm[outer * inner,](
        rows, weight, output, inner, rows.stride(0), rows.stride(1), eps, WIDTH=width, BLOCK=block, **options(block)
    )
    return output


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    output = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows, width = x.shape
    block = triton.next_power_of_2(width)
    norm_kernels.add_rms_norm[rows,](
        x, residual, weight, output, x.stride(0), residual.stride(0), eps, WIDTH=width, BLOCK=block, **options(block)
    )
    return output


def silu_mul(gate_up: Tensor) -> Tensor:
    rows, width = len(gate_up), gate_up.shape[1] // 2
    output = gate_up.new_empty(rows, width)
    activation_kernels.silu_mul[rows, triton.cdiv(width, SILU_BLOCK)](
        gate_up, output, gate_up.stride(0), WIDTH=width, BLOCK=SILU_BLOCK, **options(SILU_BLOCK)
    )
    return output


def rotate_and_store(
    qkv: Tensor, norm: QKNorm | None, rotary: tuple[Tensor, Tensor], slots: Tensor, kv: LayerKV
) -> Tensor:
    cosines, sines = rotary
    kv_heads, dim = kv.keys.shape[1:]
    heads = qkv.shape[1] // dim - 2 * kv_heads
    query = qkv.new_empty(len(qkv), heads, dim)
    half_block = triton.next_power_of_2(dim // 2)
    blocks = triton.cdiv(heads, ROTARY_HEADS) + 2 * triton.cdiv(kv_heads, ROTARY_HEADS)
    rotary_kernels.rotate_and_store[len(qkv), blocks](
        qkv,
        query,
        kv.keys,
        kv.values,
        norm.query if norm else None,
        norm.key if norm else None,
        cosines,
        sines,
        slots,
        qkv.stride(0),
        kv.keys.stride(0),
        kv.values.stride(0),
        cosines.stride(0),
        norm.eps if norm else 0.0,
        HEADS=heads,
        KV_HEADS=kv_heads,
        HALF=dim // 2,
        NORMED=norm is not None,
        BLOCK=ROTARY_HEADS,
        HALF_BLOCK=half_block,
        **options(ROTARY_HEADS * half_block),
    )
    return query


def apply_mask(logits: Tensor, words: Tensor) -> None:
    rows, vocab = logits.shape
    mask_kernels.apply_mask[rows, triton.cdiv(vocab, 32 * MASK_WORDS)](
        logits, words, vocab, logits.stride(0), words.stride(0), BLOCK=MASK_WORDS, **options(32 * MASK_WORDS)
    )


def draw(logits: Tensor, draws: Draws, block: int = SAMPLING_BLOCK) -> Tensor:
    """``block`` bounds how many tokens are looked at at once; it changes no token."""
    rows, vocab = logits.shape
    block = min(block, triton.next_power_of_2(vocab))
    capacity = 2 * block
    totals, tokens = logits.new_empty(rows, dtype=torch.int64), logits.new_empty(rows, dtype=torch.int64)
    lengths, leasts = logits.new_empty(rows, dtype=torch.int32), logits.new_empty(rows, dtype=torch.int32)
    largests, shorts = logits.new_empty(rows), logits.new_empty(rows, capacity)
    temperature, top_k, top_p, min_p, uniform = draws
    launch = {"CAPACITY": capacity, "BLOCK": block, **options(block, each=16)}
    survey = largests, totals, shorts, lengths, leasts
    sampling_kernels.survey[rows,](logits, temperature, top_k, top_p, min_p, *survey, vocab, logits.stride(0), **launch)
    sampling_kernels.choose[rows,](
        logits, temperature, top_k, top_p, min_p, uniform, *survey, tokens, vocab, logits.stride(0), **launch
    )
    return tokens


def options(elements: int, each: int = 8) -> dict[str, int]:
    """How to launch a program that handles ``elements`` at a time, so that a thread has ``each`` of them.

    These kernels wait for memory. 8 elements a thread make loads of 16 bytes, and enough of them at once, from compute
    capability 8.0 to 9.0 alike. Products and sums stay apart (no FMA), as in plain torch.
    """
    return {"num_warps": min(max(elements // (32 * each), 1), 32), "enable_fp_fusion": False}
