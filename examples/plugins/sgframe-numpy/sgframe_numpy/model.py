"""Llama (Touvron et al. 2023) over ragged spans and paged KV. Knows no requests: a step is tokens, slots and who sees whom.

What a step computes of all rows lies end to end in one array [T, …], without padding. Only attention takes the rows one
by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sgframe.errors import ModelError
from sgframe_numpy.checkpoint import Floats, LlamaConfig
from sgframe_numpy.rows import Slots, Span

QUERY_BLOCK = 128
"""Most tokens of a row whose attention scores exist at once: bounds them to QUERY_BLOCK × heads × context floats."""


class LayerKV(NamedTuple):
    """One layer's keys and values [slots, KV heads, dim], written in place. A slot is a page: any will do for any token."""

    keys: Floats
    values: Floats


class Llama:
    """The model. Raises ModelError when ``weights`` are not those of ``config``."""

    def __init__(self, config: LlamaConfig, weights: Mapping[str, Floats]) -> None:
        self._config = config
        self._frequencies = 1 / np.float32(config.theta) ** (np.arange(0, config.dim, 2, dtype=np.float32) / config.dim)
        try:
            self._embedding = weights["model.embed_tokens.weight"]
            self._layers = [_Layer(config, weights, f"model.layers.{i}") for i in range(config.num_hidden_layers)]
            self._norm = weights["model.norm.weight"]
            self._head = self._embedding if config.tie_word_embeddings else weights["lm_head.weight"]
        except KeyError as error:
            raise ModelError(f"there is no weight {error}; is the config.json that of another model?") from None

    def new_kv(self, slots: int) -> list[LayerKV]:
        """The KV of every layer. It is not cleared: a slot is written before it is read."""
        shape = (slots, self._config.num_key_value_heads, self._config.dim)
        return [LayerKV(np.empty(shape, np.float32), np.empty(shape, np.float32)) for _ in self._layers]

    def hidden(self, spans: Sequence[Span], kv: Sequence[LayerKV]) -> Floats:
        """The last hidden states [T, hidden] of ``spans``; their keys and values are written to ``kv``."""
        x: Floats = self._embedding[np.concatenate([span.tokens for span in spans])]
        positions = np.concatenate([span.positions for span in spans]).astype(np.float32)
        angles = positions[:, None, None] * self._frequencies
        rotary = np.cos(angles), np.sin(angles)
        slots = np.concatenate([span.slots[span.start :] for span in spans])
        for layer, layer_kv in zip(self._layers, kv, strict=True):
            x = layer(x, rotary, slots, spans, layer_kv)
        return x

    def logits(self, hidden: Floats) -> Floats:
        """[n, vocab] of ``hidden`` [n, hidden]."""
        logits: Floats = _rms_norm(hidden, self._norm, self._config.rms_norm_eps) @ self._head.T
        return logits


class _Layer:
    def __init__(self, config: LlamaConfig, weights: Mapping[str, Floats], name: str) -> None:
        self._eps, self._dim = config.rms_norm_eps, config.dim
        self._input_norm = weights[f"{name}.input_layernorm.weight"]
        self._query, self._key, self._value, self._output = (
            weights[f"{name}.self_attn.{part}_proj.weight"].T for part in "qkvo"
        )
        self._post_norm = weights[f"{name}.post_attention_layernorm.weight"]
        self._gate, self._up, self._down = (
            weights[f"{name}.mlp.{part}_proj.weight"].T for part in ("gate", "up", "down")
        )

    def __call__(
        self, x: Floats, rotary: tuple[Floats, Floats], slots: Slots, spans: Sequence[Span], kv: LayerKV
    ) -> Floats:
        normed = _rms_norm(x, self._input_norm, self._eps)
        query, key, value = (
            (normed @ weight).reshape(len(x), -1, self._dim) for weight in (self._query, self._key, self._value)
        )
        kv.keys[slots], kv.values[slots] = _rotate(key, *rotary), value  # all of them, before anybody attends
        x = x + _attention(_rotate(query, *rotary), kv, spans) @ self._output
        normed = _rms_norm(x, self._post_norm, self._eps)
        gate = normed @ self._gate
        x = x + (gate / (1 + np.exp(-gate)) * (normed @ self._up)) @ self._down  # SwiGLU (Shazeer 2020)
        return x


def _rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """Root mean square norm (Zhang & Sennrich 2019)."""
    normed: Floats = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight
    return normed


def _rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Rotary embedding (Su et al. 2021) of [T, heads, dim], whose halves hold the pairs."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)


def _attention(query: Floats, kv: LayerKV, spans: Sequence[Span]) -> Floats:
    """[T, heads · dim]: what the ``query`` [T, heads, dim] of each span finds in the slots that it sees."""
    found = []
    for span in spans:
        keys, values = kv.keys[span.slots], kv.values[span.slots]
        for begin in range(0, span.stop - span.start, QUERY_BLOCK):
            visible = span.visible[begin : begin + QUERY_BLOCK]
            at = span.flat + begin
            found.append(_attend(query[at : at + len(visible)], keys, values, visible))
    return np.concatenate(found)


def _attend(query: Floats, keys: Floats, values: Floats, visible: np.ndarray) -> Floats:
    """Grouped-query attention (Ainslie et al. 2023) of ``query`` [n, heads, dim] over [m, KV heads, dim]."""
    count, _, dim = query.shape
    grouped = query.reshape(count, keys.shape[1], -1, dim).transpose(1, 2, 0, 3)  # [KV heads, group, n, dim]
    scores = grouped @ keys.transpose(1, 2, 0)[:, None] * dim**-0.5
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    found: Floats = (weights @ values.transpose(1, 0, 2)[:, None]).transpose(2, 0, 1, 3).reshape(count, -1)
    return found
