"""Attention over paged KV by ``torch_npu.npu_fused_infer_attention_score``, within what its documentation allows.

A part of a step is read by pages where the operator can, and from a copy of the slots it needs where it cannot: token
trees, a sliding window that hides some of a row that computes one token, pages too small for a prefill. Knows no model.
The rules stand in docs/ascend.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sgframe_ascend.parts import Part, parts_of
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

HALF = (torch.float16, torch.bfloat16)
MOST_HEADS = 256
MOST_SHARED = 64
"""Query heads that share a KV head."""
MOST_DIM = 512
DIM_MULTIPLE = 16
MOST_WIDTH = 65534
"""heads · dim."""
MOST_KV_LENGTH = 262144
"""Tokens in KV of a row that computes one token."""
MOST_PAGED_ELEMENTS = 2**31 - 1
PREFILL_PAGE_MULTIPLE = 128
MASK_SIZE = 2048
RIGHT_DOWN_CAUSAL, BAND = 3, 4
"""Values of ``sparse_mode``. Both count from the lower right corner: the last query of a row is at its last key."""
MOST_COPIED = 2**16
"""Most tokens of which a call is given a copy of keys and values, unless one row alone has more."""


@cache
def obstacle(dtype: torch.dtype, heads: int, kv_heads: int, key_dim: int, value_dim: int, softcap: float) -> str:
    """Why the operator cannot compute such attention, or nothing."""
    faults = {
        f"{dtype}": dtype not in HALF,
        "soft cap on scores": softcap > 0,
        f"values of {value_dim} for keys of {key_dim}": value_dim != key_dim,
        f"heads of {key_dim}": key_dim % DIM_MULTIPLE or key_dim > MOST_DIM or heads * key_dim > MOST_WIDTH,
        f"{heads} heads that share {kv_heads}": heads > MOST_HEADS or heads > MOST_SHARED * kv_heads,
    }
    return next((fault for fault, found in faults.items() if found), "")


class FusedAttention:
    """The operator, over pages of ``page_size`` slots. ``begin`` comes before the layers of a step."""

    def __init__(self, operator: Callable[..., tuple[Tensor, Tensor]], page_size: int) -> None:
        self._operator = operator
        self._page_size = page_size
        self._mask: Tensor | None = None
        self._parts: list[Part] = []
        self._paged = True

    def begin(self, step: StepInputs) -> None:
        """Plan the calls of ``step``, which all layers share."""
        self._parts, self._paged = parts_of(step, self._page_size), step.paged

    def obstacle(self, query: Tensor, kv: LayerKV, softcap: float) -> str:
        """What of this attention, in the step that has begun, the operator has not; or nothing."""
        (heads, dim), kv_heads = query.shape[1:], kv.keys.shape[1]
        if max(part.longest for part in self._parts) > MOST_KV_LENGTH:
            return f"rows of more than {MOST_KV_LENGTH} tokens"
        return obstacle(query.dtype, heads, kv_heads, dim, kv.values.shape[2], softcap)

    def __call__(self, query: Tensor, kv: LayerKV, scale: float, window: int) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``; Only where there is no ``obstacle``."""
        if len(self._parts) == 1:
            return self._attend(self._parts[0], query, kv, scale, window)
        output = torch.empty_like(query)
        for part in self._parts:
            output[part.tokens] = self._attend(part, query[part.tokens], kv, scale, window)
        return output

    def _attend(self, part: Part, query: Tensor, kv: LayerKV, scale: float, window: int) -> Tensor:
        """[B · count, heads, dim] for the queries of ``part``, of the same shape."""
        if part.longest <= window:
            window = 0
        query = query.contiguous().unflatten(0, (-1, part.count))
        options = {
            "num_heads": query.shape[2],
            "num_key_value_heads": kv.keys.shape[1],
            "scale": scale,
            "input_layout": "BSND",
            **self._sparsity(part, query.device, window),
        }
        read = self._by_pages if self._reads_pages(part, kv, window) else self._from_copies
        return read(part, query, kv, window, options).flatten(0, 1)

    def _reads_pages(self, part: Part, kv: LayerKV, window: int) -> bool:
        fits = not window if part.count == 1 else self._page_size % PREFILL_PAGE_MULTIPLE == 0
        return self._paged and fits and kv.keys.numel() <= MOST_PAGED_ELEMENTS

    def _sparsity(self, part: Part, device: torch.device, window: int) -> dict[str, Any]:
        """A row that computes one token sees all it is given, and the operator heeds no mask for it."""
        if part.count == 1:
            return {}
        if self._mask is None:
            self._mask = torch.ones(MASK_SIZE, MASK_SIZE, dtype=torch.bool).triu(diagonal=1).to(device)
        if window:
            return {"atten_mask": self._mask, "sparse_mode": BAND, "pre_tokens": window - 1, "next_tokens": 0}
        return {"atten_mask": self._mask, "sparse_mode": RIGHT_DOWN_CAUSAL}

    def _by_pages(self, part: Part, query: Tensor, kv: LayerKV, window: int, options: dict[str, Any]) -> Tensor:
        return self._operator(
            query,
            self._in_pages(kv.keys),
            self._in_pages(kv.values),
            block_table=part.pages,
            block_size=self._page_size,
            actual_seq_lengths=[part.count] * len(part.lengths),
            actual_seq_lengths_kv=part.lengths.tolist(),
            **options,
        )[0]

    def _in_pages(self, slots: Tensor) -> Tensor:
        """[pages, page size, KV heads · dim]."""
        return slots.view(-1, self._page_size, slots.shape[1] * slots.shape[2])

    def _from_copies(self, part: Part, query: Tensor, kv: LayerKV, window: int, options: dict[str, Any]) -> Tensor:
        slots, seen = part.slots(window), part.seen(window).tolist()
        rows = max(1, MOST_COPIED // slots.shape[1])
        outputs = [
            self._operator(
                query[start : start + rows],
                kv.keys[slots[start : start + rows]],
                kv.values[slots[start : start + rows]],
                actual_seq_lengths=[part.count] * len(seen[start : start + rows]),
                actual_seq_lengths_kv=seen[start : start + rows],
                **options,
            )[0]
            for start in range(0, len(seen), rows)
        ]
        return torch.cat(outputs)
