"""The Llama family (Llama, Mistral, Qwen2, Qwen3) over flat ragged tokens and paged KV, with fused projections."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sgframe_torch.kv import KVShape, LayerKV
from sgframe_torch.models.rope import Rope, head_dim
from sgframe_torch.ops import DeviceOps, Linear, QKNorm
from sgframe_torch.parallel.group import Group
from sgframe_torch.parallel.layers import gathered, row_parallel, vocabulary_parallel
from sgframe_torch.parallel.shards import Division, Sharding, Style
from sgframe_torch.rows import StepInputs
from sgframe_torch.weights import Weights

FAMILY = frozenset({"llama", "mistral", "qwen2", "qwen3"})

_PLAN = {
    "model.embed_tokens": Style.VOCABULARY,
    "model.layers.*.self_attn.q_proj": Style.COLUMNS,
    "model.layers.*.self_attn.k_proj": Style.KV_HEADS,
    "model.layers.*.self_attn.v_proj": Style.KV_HEADS,
    "model.layers.*.self_attn.o_proj": Style.ROWS,
    "model.layers.*.mlp.gate_proj": Style.COLUMNS,
    "model.layers.*.mlp.up_proj": Style.COLUMNS,
    "model.layers.*.mlp.down_proj": Style.ROWS,
    "lm_head": Style.GATHERED_COLUMNS,
}


def supports(config: Any) -> bool:
    """Whether this module implements everything that ``config`` asks for."""
    quantized = getattr(config, "quantization_config", None) is not None
    return config.model_type in FAMILY and config.hidden_act == "silu" and not quantized


def check_ranks(config: Any, size: int) -> None:
    """Raises ModelError, with the numbers, when ``size`` ranks cannot divide the model of ``config``."""
    widths = {"intermediate size": config.intermediate_size}
    Division(config.num_attention_heads, config.num_key_value_heads, widths).check(size)


def load(
    folder: Path,
    config: Any,
    dtype: torch.dtype,
    ops: DeviceOps,
    group: Group,
    progress: Callable[[str, int, int], None],
) -> Llama:
    """Load this rank's part of the model from ``folder``. Raises ModelError."""
    check_ranks(config, group.size)
    sharding = Sharding(_PLAN, config.num_key_value_heads, group.rank, group.size)
    with torch.inference_mode(), Weights(folder, dtype, ops.device, progress, sharding.cut) as weights:
        return Llama(config, weights, ops, group)


class Llama:
    """A decoder-only transformer: see Touvron et al. 2023 (Llama) and Yang et al. 2025 (Qwen3, norm of queries and keys)."""

    def __init__(self, config: Any, weights: Weights, ops: DeviceOps, group: Group) -> None:
        self._ops, self._eps = ops, config.rms_norm_eps
        self._rope = Rope(config, ops)
        self._embedding = embedding = weights["model.embed_tokens.weight"]
        self._embed = vocabulary_parallel(partial(ops.embed, weight=embedding), len(embedding), group)
        self._layers = [_Layer(index, config, weights, ops, group) for index in range(config.num_hidden_layers)]
        self._norm = weights["model.norm.weight"]
        head = embedding if config.tie_word_embeddings else weights["lm_head.weight"]
        packed = ops.packed_bytes(head, head=True)
        self.packed_bytes = packed if head is embedding else 0
        if head is not embedding:
            weights.replace(head, packed)
        self._head = gathered(ops.head(head), group, config.vocab_size)
        kv_heads, dim = max(1, config.num_key_value_heads // group.size), head_dim(config)
        self.kv_shapes = [KVShape(kv_heads, dim, dim)] * config.num_hidden_layers
        self.recordable = group.size == 1
        self.weight_bytes = weights.held_bytes

    def hidden(self, step: StepInputs, kv: list[LayerKV]) -> Tensor:
        residual = self._embed(step.tokens)
        rotary = self._rope(step.positions)
        update: Tensor | None = None
        for layer, layer_kv in zip(self._layers, kv, strict=True):
            update = layer(update, residual, rotary, step, layer_kv)
        return residual if update is None else self._ops.add(update, residual)

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(self._ops.rms_norm(hidden, self._norm, self._eps))


class _Layer:
    def __init__(self, index: int, config: Any, weights: Weights, ops: DeviceOps, group: Group) -> None:
        self._ops, self._eps, self._dim = ops, config.rms_norm_eps, head_dim(config)
        self._window = _window(config, index)
        layer = f"model.layers.{index}"
        self._input_norm = weights[f"{layer}.input_layernorm.weight"]
        self._qkv = _linear(weights, ops, f"{layer}.self_attn", "q_proj", "k_proj", "v_proj")
        self._qk_norm = _qk_norm(weights, f"{layer}.self_attn", self._eps) if config.model_type == "qwen3" else None
        self._output = row_parallel(_linear(weights, ops, f"{layer}.self_attn", "o_proj"), group)
        self._post_norm = weights[f"{layer}.post_attention_layernorm.weight"]
        self._gate_up = _linear(weights, ops, f"{layer}.mlp", "gate_proj", "up_proj")
        self._down = row_parallel(_linear(weights, ops, f"{layer}.mlp", "down_proj"), group)

    def __call__(
        self, update: Tensor | None, residual: Tensor, rotary: tuple[Tensor, Tensor], step: StepInputs, kv: LayerKV
    ) -> Tensor:
        """The update to ``residual`` [T, hidden], which first takes in, in place, the ``update`` of the layer before."""
        ops = self._ops
        if update is None:
            x = ops.rms_norm(residual, self._input_norm, self._eps)
        else:
            x = ops.add_rms_norm(update, residual, self._input_norm, self._eps)
        x = self._output(self._attend(self._qkv(x), rotary, step, kv))
        x = ops.add_rms_norm(x, residual, self._post_norm, self._eps)
        return self._down(ops.silu_mul(self._gate_up(x)))

    def _attend(self, qkv: Tensor, rotary: tuple[Tensor, Tensor], step: StepInputs, kv: LayerKV) -> Tensor:
        query = self._ops.rotate_and_store(qkv, self._qk_norm, rotary, step.slots, kv)
        return self._ops.attention(query, kv, step, self._dim**-0.5, self._window).flatten(1)


def _qk_norm(weights: Weights, parent: str, eps: float) -> QKNorm:
    return QKNorm(weights[f"{parent}.q_norm.weight"], weights[f"{parent}.k_norm.weight"], eps)


def _linear(weights: Weights, ops: DeviceOps, parent: str, *names: str) -> Linear:
    """One linear layer of ``names`` fused side by side, with their biases if the checkpoint has them."""
    biases = [f"{parent}.{name}.bias" for name in names]
    bias = weights.joined(*biases) if biases[0] in weights else None
    weight = weights.joined(*(f"{parent}.{name}.weight" for name in names))
    weights.replace(weight, ops.packed_bytes(weight))
    return ops.linear(weight, bias)


def _window(config: Any, layer: int) -> int:
    """The sliding window of ``layer`` in tokens, 0 for none."""
    types = getattr(config, "layer_types", None)
    if types and types[layer] != "sliding_attention":
        return 0
    return getattr(config, "sliding_window", None) or 0
