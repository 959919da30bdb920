"""What ``npu_fused_infer_attention_score`` gives by its documentation: attention_out = softmax(scale · q·kᵀ + mask) · v.

Computed in float64 row by row and rounded once, so that no row depends on its neighbours. Only what lies within a row's
length is read, as in the operator.
"""

from __future__ import annotations

from typing import Any

import torch
from npu_rules import Misuse, require
from torch import Tensor

UNUSED = 2147483647
RIGHT_DOWN, BAND = 3, 4
HIDDEN = torch.ones(2048, 2048, dtype=torch.bool).triu(diagonal=1)


def fused_infer_attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """``query`` [B, S, heads, dim] (layout BSND)."""
    call = _Call(query, key, value, options)
    call.check()
    output = torch.empty_like(query)
    for row, length in enumerate(call.lengths):
        output[row] = call.attend(row, length).to(query.dtype)
    return output, torch.zeros(1)


class _Call:
    right_mask: Tensor | None = None

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]) -> None:
        self.query, self.key, self.value = query, key, value
        self.rows, self.count, self.heads, self.dim = query.shape if query.dim() == 4 else (0, 0, 0, 0)
        self.heads_given = options.pop("num_heads", 1)
        self.kv_heads = options.pop("num_key_value_heads", 0) or self.heads_given
        self.scale = options.pop("scale", 1.0)
        self.layout = options.pop("input_layout", "BSH")
        self.table = options.pop("block_table", None)
        self.page = options.pop("block_size", 0)
        self.mask, self.mode = options.pop("atten_mask", None), options.pop("sparse_mode", 0)
        self.before, self.after = options.pop("pre_tokens", UNUSED), options.pop("next_tokens", UNUSED)
        self.counts = options.pop("actual_seq_lengths", None)
        self.given_lengths = options.pop("actual_seq_lengths_kv", None)
        if played := sorted(options):
            raise Misuse(f"the double does not play {', '.join(played)}")
        whole = self.table.shape[1] * self.page if self.table is not None else key.shape[1]
        self.capacity = whole
        self.lengths = [whole] * self.rows if self.given_lengths is None else self.given_lengths

    def check(self) -> None:
        self._check_shapes()
        self._check_pages()
        self._check_lengths()
        self._check_mask()

    def _check_shapes(self) -> None:
        if self.layout != "BSND" or self.query.dim() != 4:
            raise Misuse(f"the double plays BSND of 4 dimensions; found {self.layout} of {self.query.dim()}")
        half = self.query.dtype in (torch.float16, torch.bfloat16)
        require(half and self.query.is_contiguous(), "half precision", f"{self.query.dtype}, {self.query.stride()}")
        require(self.key.is_contiguous(), "contiguous keys", self.key.stride())
        require(self.value.is_contiguous(), "contiguous values", self.value.stride())
        same = self.key.shape == self.value.shape and self.key.dtype == self.value.dtype == self.query.dtype
        require(same, "keys like values", f"{self.key.shape}, {self.value.shape}")
        require(self.dim % 16 == 0, "dim", self.dim)
        fits = self.heads <= 256 and self.dim <= 512 and (self.count == 1 or self.heads * self.dim < 65535)
        require(fits, "heads and dims", f"{self.heads} of {self.dim}")
        shared = (
            self.heads_given == self.heads and 0 < self.heads <= 64 * self.kv_heads and not self.heads % self.kv_heads
        )
        require(shared, "heads that share", f"{self.heads_given} and {self.kv_heads} for {self.heads} heads")
        if self.table is None:
            plain = (
                self.key.dim() == 4
                and self.key.shape[0] == self.rows
                and self.key.shape[2:] == (self.kv_heads, self.dim)
            )
            require(plain, "heads that share", f"keys of shape {tuple(self.key.shape)}")

    def _check_lengths(self) -> None:
        for lengths, most in ((self.counts, self.count), (self.given_lengths, self.capacity)):
            if lengths is not None:
                require(len(lengths) == self.rows, "a length each", f"{len(lengths)} for {self.rows} rows")
                require(all(0 < each <= most for each in lengths), "lengths within", f"{lengths} of {most}")
        if self.table is not None:
            pages = [-(-length // self.page) for length in self.lengths]
            require(len(self.key) >= sum(pages), "pages of all rows", f"{len(self.key)} for {pages}")
        if self.count == 1:
            require(max(self.lengths) <= 262144, "longest row", max(self.lengths))

    def _check_mask(self) -> None:
        require(0 <= self.mode <= 4, "modes", self.mode)
        if self.count == 1:
            heedless = self.mask is None and self.mode == 0 and self.before == self.after == UNUSED
            require(heedless, "one token heeds no mask", f"sparse_mode {self.mode}")
        elif self.mode in (RIGHT_DOWN, BAND):
            require(self.mask is not None and self.mask.shape[-2:] == (2048, 2048), "compressed mask", self.mask)
            require(self.mask.dtype in (torch.bool, torch.int8, torch.uint8), "mask type", self.mask.dtype)
            if self.mask is not _Call.right_mask:  # 4 million comparisons, once for each mask
                require(torch.equal(self.mask.bool().view(2048, 2048), HIDDEN), "lower triangle", "another mask")
                _Call.right_mask = self.mask
            require(self.mode == BAND or self.before == self.after == UNUSED, "right down", "pre_tokens or next_tokens")
            require(self.before >= 0 and self.before + self.after >= 0, "band", f"{self.before}, {self.after}")
        else:
            raise Misuse(f"the double plays sparse_mode 3 and 4 for rows of several queries; found {self.mode}")

    def _check_pages(self) -> None:
        if self.table is None:
            return
        if self.count == 1:
            require(0 < self.page <= 512 and self.page % 16 == 0, "page of a decode", self.page)
        else:
            require(128 <= self.page <= 512 and self.page % 128 == 0, "page of a prefill", self.page)
        require(self.given_lengths is not None, "pages have lengths", None)
        require(self.key.numel() < 2**31, "size of paged KV", self.key.numel())
        shape = (self.page, self.kv_heads * self.dim)
        require(self.key.dim() == 3 and self.key.shape[1:] == shape, "layout of pages", tuple(self.key.shape))
        require(self.table.dtype == torch.int32, "block table type", self.table.dtype)
        require(self.kv_heads * self.dim <= 65535, "width of paged KV", self.kv_heads * self.dim)
        pages = -(-max(self.given_lengths) // self.page)
        wide = self.table.dim() == 2 and self.table.shape[0] == self.rows and self.table.shape[1] >= pages
        require(wide, "block table", tuple(self.table.shape))

    def attend(self, row: int, length: int) -> Tensor:
        """[S, heads, dim] float64 for the queries of ``row``."""
        keys, values = (self._read(each, row, length) for each in (self.key, self.value))
        grouped = self.query[row].double().unflatten(1, (self.kv_heads, -1))
        scores = torch.einsum("qhgd,khd->hgqk", grouped, keys) * self.scale
        scores.masked_fill_(~self._visible(length), -torch.inf)
        return torch.einsum("hgqk,khd->qhgd", scores.softmax(-1), values).flatten(1, 2)

    def _read(self, stored: Tensor, row: int, length: int) -> Tensor:
        """[length, KV heads, dim] float64."""
        if self.table is not None:
            stored = stored[self.table[row, : -(-length // self.page)].long()].flatten(0, 1)
        else:
            stored = stored[row]
        return stored[:length].double().unflatten(-1, (-1, self.dim)).view(length, self.kv_heads, self.dim)

    def _visible(self, length: int) -> Tensor:
        """[S, length]: counted from the lower right corner, where the last query meets the last key."""
        if self.count == 1:
            return torch.ones(1, length, dtype=torch.bool)
        behind = torch.arange(length - self.count, length)[:, None] - torch.arange(length)
        if self.mode == BAND:
            return (behind <= self.before) & (-behind <= self.after)
        return behind >= 0
