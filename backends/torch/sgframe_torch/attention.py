"""Paged attention in plain torch: the definition that device kernels are tested against."""

from __future__ import annotations

import torch
from torch import Tensor

from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

QUERY_BLOCK = 128
"""Most queries whose scores exist at once; bounds memory at QUERY_BLOCK × heads × context floats."""


def paged_attention(
    query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
) -> Tensor:
    """Causal attention of every token over its own row, with grouped queries; computed in float32.

    ``query`` is [T, heads, key_dim]; the step's own keys and values are in ``kv`` already. ``window`` > 0 lets a token
    see only itself and the ``window - 1`` before it. ``softcap`` > 0 bounds scores to ±softcap by tanh (Gemma 2).
    Returns [T, heads, value_dim] in the dtype of ``query``.
    """
    output = query.new_empty(*query.shape[:2], kv.values.shape[-1])
    starts, lengths = step.query_starts.tolist(), step.kv_lengths.tolist()
    for index, row in enumerate(step.rows.tolist()):
        slots = step.page_table[row, : lengths[index]]
        keys, values = kv.keys[slots].float(), kv.values[slots].float()
        for begin in range(starts[index], starts[index + 1], QUERY_BLOCK):
            block = slice(begin, min(begin + QUERY_BLOCK, starts[index + 1]))
            mask = _visible(step.positions[block], lengths[index], window)
            output[block] = _attend(query[block].float(), keys, values, mask, scale, softcap)
    return output


def _visible(positions: Tensor, length: int, window: int) -> Tensor:
    """[queries, length]: which earlier tokens each query may see."""
    distance = positions[:, None] - torch.arange(length, device=positions.device)
    visible = distance >= 0
    return visible & (distance < window) if window else visible


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float, softcap: float) -> Tensor:
    grouped = query.unflatten(1, (keys.shape[1], -1))
    scores = torch.einsum("qhgd,khd->hgqk", grouped, keys) * scale
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
    return torch.einsum("hgqk,khd->qhgd", weights, values).flatten(1, 2)
