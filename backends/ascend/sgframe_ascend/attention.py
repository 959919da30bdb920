"""Attention over paged KV by ``torch_npu.npu_fused_infer_attention_score``, within what its documentation allows.

A part of a step is read by pages where the operator can, and from a copy of the slots it needs where it cannot: token
trees, a sliding window that hides some of a row that computes one token, pages too small for a prefill. Knows no model.
The rules stand in docs/ascend.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sgframe_ascend.parts import Part, UploadAll, parts_of, spans
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import StepInputs

HALF = (torch.float16, torch.bfloat16)
MOST_HEADS = 256
MOST_SHARED = 64
"""Query heads that share a KV head."""
MOST_DIM = 512
DIM_MULTIPLE = 16
MOST_WIDTH = 65534
"""heads · dim, of queries; KV has no more."""
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


class Reading(NamedTuple):
    """One call's share of a part: its ``rows``, what it is given of KV, and how many tokens of that each row has."""

    rows: slice
    keys: Tensor
    values: Tensor
    lengths: list[int]
    paging: dict[str, Any]


class FusedAttention:
    """The operator, over pages of ``page_size`` slots. ``begin`` comes before the layers of a step."""

    def __init__(self, operator: Callable[..., tuple[Tensor, Tensor]], page_size: int, upload_all: UploadAll) -> None:
        self._operator = operator
        self._page_size = page_size
        self._upload_all = upload_all
        self._mask: Tensor | None = None
        self._parts: list[Part] = []
        self._paged = True

    def begin(self, step: StepInputs) -> None:
        """Plan the calls of ``step``, which all layers share."""
        self._parts, self._paged = parts_of(step, self._page_size, self._upload_all), step.paged

    def obstacle(self, query: Tensor, kv: LayerKV, softcap: float) -> str:
        """What of this attention, in the step that has begun, the operator has not; or nothing."""
        (heads, dim), kv_heads = query.shape[1:], kv.keys.shape[1]
        if max(part.longest for part in self._parts) > MOST_KV_LENGTH:
            return f"rows of more than {MOST_KV_LENGTH} tokens"
        return obstacle(query.dtype, heads, kv_heads, dim, kv.values.shape[2], softcap)

    def __call__(self, query: Tensor, kv: LayerKV, scale: float, window: int) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``; only where there is no ``obstacle``."""
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
            **self._sparsity(part, window),
        }
        readings = self._pages(part, kv) if self._reads_pages(part, kv, window) else _copies(part, kv, window)
        outputs = [
            self._operator(
                query[each.rows],
                each.keys,
                each.values,
                actual_seq_lengths=[part.count] * len(each.lengths),
                actual_seq_lengths_kv=each.lengths,
                **each.paging,
                **options,
            )[0]
            for each in readings
        ]
        return (outputs[0] if len(outputs) == 1 else torch.cat(outputs)).flatten(0, 1)

    def _reads_pages(self, part: Part, kv: LayerKV, window: int) -> bool:
        fits = not window if part.count == 1 else self._page_size % PREFILL_PAGE_MULTIPLE == 0
        return self._paged and fits and kv.keys.numel() <= MOST_PAGED_ELEMENTS

    def _sparsity(self, part: Part, window: int) -> dict[str, Any]:
        """A row that computes one token sees all it is given, and the operator heeds no mask for it."""
        if part.count == 1:
            return {}
        if self._mask is None:
            (self._mask,) = self._upload_all([np.triu(np.ones((MASK_SIZE, MASK_SIZE), dtype=bool), k=1)])
        if window:
            return {"atten_mask": self._mask, "sparse_mode": BAND, "pre_tokens": window - 1, "next_tokens": 0}
        return {"atten_mask": self._mask, "sparse_mode": RIGHT_DOWN_CAUSAL}

    def _pages(self, part: Part, kv: LayerKV) -> Iterator[Reading]:
        """Of the pages where they lie; the pool may not have fewer than the rows of a call have together, though rows that
        share a prefix share its pages."""
        keys, values = (slots.view(-1, self._page_size, slots.shape[1] * slots.shape[2]) for slots in kv)
        for rows in spans(part.page_counts, len(keys)):
            paging = {"block_table": part.pages[rows], "block_size": self._page_size}
            yield Reading(rows, keys, values, part.lengths[rows].tolist(), paging)


def _copies(part: Part, kv: LayerKV, window: int) -> Iterator[Reading]:
    """Of what each row sees, copied together."""
    slots, seen = part.slots(window), part.seen(window)
    for rows in spans(np.full(len(slots), slots.shape[1]), MOST_COPIED):
        yield Reading(rows, kv.keys[slots[rows]], kv.values[slots[rows]], seen[rows].tolist(), {})
