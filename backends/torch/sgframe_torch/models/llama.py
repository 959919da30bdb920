"""The Llama family (Llama, Mistral, Qwen2, Qwen3) over flat ragged tokens and paged KV, with fused projections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sgframe_torch.kv import KVShape, LayerKV
from sgframe_torch.models.rope import Rope, head_dim
from sgframe_torch.ops import DeviceOps, Linear, QKNorm
from sgframe_torch.rows import StepInputs
from sgframe_torch.weights import Weights

FAMILY = frozenset({"llama", "mistral", "qwen2", "qwen3"})


def supports(config: Any) -> bool:
    """Whether this module implements everything that ``config`` asks for."""
    return config.model_type in FAMILY and config.hidden_act == "silu"


def load(
    folder: Path, config: Any, dtype: torch.dtype, ops: DeviceOps, progress: Callable[[str, int, int], None]
) -> Llama:
    """Load the model from ``folder``. Raises ModelError."""
    with torch.inference_mode(), Weights(folder, dtype, ops.device, progress) as weights:
        return Llama(config, weights, ops)


class Llama:
    """A decoder-only transformer: see Touvron et al. 2023 (Llama) and Yang et al. 2025 (Qwen3, norm of queries and keys)."""

    def __init__(self, config: Any, weights: Weights, ops: DeviceOps) -> None:
        self._ops, self._eps = ops, config.rms_norm_eps
        self._rope = Rope(config, ops.device)
        self._embedding = weights["model.embed_tokens.weight"]
        self._layers = [_Layer(index, config, weights, ops) for index in range(config.num_hidden_layers)]
        self._norm = weights["model.norm.weight"]
        tied = config.tie_word_embeddings
        self._head = ops.linear(self._embedding if tied else weights["lm_head.weight"])
        self.kv_shapes = [
            KVShape(config.num_key_value_heads, head_dim(config), head_dim(config))
        ] * config.num_hidden_layers
        self.weight_bytes = weights.loaded_bytes
        self.packed_bytes = self._embedding.nbytes if tied and ops.repacks(self._embedding.dtype) else 0

    def hidden(self, step: StepInputs, kv: list[LayerKV]) -> Tensor:
        residual = F.embedding(step.tokens, self._embedding)
        rotary = self._rope(step.positions)
        update: Tensor | None = None
        for layer, layer_kv in zip(self._layers, kv, strict=True):
            update = layer(update, residual, rotary, step, layer_kv)
        return residual if update is None else residual + update

    def logits(self, hidden: Tensor) -> Tensor:
        return self._head(self._ops.rms_norm(hidden, self._norm, self._eps))


class _Layer:
    def __init__(self, index: int, config: Any, weights: Weights, ops: DeviceOps) -> None:
        self._ops, self._eps, self._dim = ops, config.rms_norm_eps, head_dim(config)
        self._window = _window(config, index)
        layer = f"model.layers.{index}"
        self._input_norm = weights[f"{layer}.input_layernorm.weight"]
        self._qkv = _linear(weights, ops, f"{layer}.self_attn", "q_proj", "k_proj", "v_proj")
        self._qk_norm = _qk_norm(weights, f"{layer}.self_attn", self._eps) if config.model_type == "qwen3" else None
        self._output = _linear(weights, ops, f"{layer}.self_attn", "o_proj")
        self._post_norm = weights[f"{layer}.post_attention_layernorm.weight"]
        self._gate_up = _linear(weights, ops, f"{layer}.mlp", "gate_proj", "up_proj")
        self._down = _linear(weights, ops, f"{layer}.mlp", "down_proj")

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
    return ops.linear(weights.joined(*(f"{parent}.{name}.weight" for name in names)), bias)


def _window(config: Any, layer: int) -> int:
    """The sliding window of ``layer`` in tokens, 0 for none."""
    types = getattr(config, "layer_types", None)
    if types and types[layer] != "sliding_attention":
        return 0
    return getattr(config, "sliding_window", None) or 0
