"""Which rows of a step one attention call can serve: those that compute equally many tokens. Knows no operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from torch import Tensor

from sgframe_torch.rows import Ints32, StepInputs

UploadAll = Callable[[Sequence[np.ndarray]], list[Tensor]]
"""See DeviceOps."""


@dataclass(frozen=True)
class Part:
    """B rows that compute ``count`` tokens each.

    Attributes:
        tokens: picks their B · count tokens out of the step's, row by row.
        lines: int32 [B, longest] the slots of each row's tokens, with any slot at all behind its length.
        lengths: [B] tokens of each row in KV, on the host.
        page_size: slots of a page.
    """

    count: int
    tokens: slice | Tensor
    lines: Tensor
    lengths: Ints32
    page_size: int
    upload_all: UploadAll
    _slots: dict[int, Tensor] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """Tokens of the longest row in KV."""
        return self.lines.shape[1]

    @cached_property
    def pages(self) -> Tensor:
        """int32 [B, pages of the longest row]: the number of each page. Only where rows lie in whole pages."""
        return self.lines[:, :: self.page_size] // self.page_size

    @cached_property
    def page_counts(self) -> Ints32:
        """[B]: the pages of each row."""
        return -(-self.lengths // self.page_size)

    def seen(self, window: int) -> Ints32:
        """[B]: how many of a row's last tokens any of its queries sees, when each sees at most ``window`` (0: all)."""
        return np.minimum(self.lengths, self.count + window - 1, dtype=np.int32) if window else self.lengths

    def slots(self, window: int) -> Tensor:
        """int64 [B, most seen]: the slots of what each row sees, with any slot at all behind them."""
        if window not in self._slots:
            seen = self.seen(window)
            positions = (self.lengths - seen)[:, None] + np.arange(seen.max())
            (places,) = self.upload_all([np.minimum(positions, self.longest - 1)])
            self._slots[window] = self.lines.gather(1, places).long()
        return self._slots[window]


def parts_of(step: StepInputs, page_size: int, upload_all: UploadAll) -> list[Part]:
    """The parts of ``step``. Plans on the host and waits for nothing that is computed."""
    counts, starts, lengths = np.diff(step.host_starts), step.host_starts, step.host_lengths
    if counts.min() == counts.max():
        lines = step.page_table[:, : int(lengths.max())].index_select(0, step.rows)
        return [Part(int(counts[0]), slice(None), lines, lengths, page_size, upload_all)]
    kinds = [int(count) for count in np.unique(counts) if count]
    orders = [np.flatnonzero(counts == count) for count in kinds]
    flats = [(starts[order][:, None] + np.arange(count)).ravel() for order, count in zip(orders, kinds, strict=True)]
    places = upload_all([*orders, *flats])
    parts = []
    for count, order, flat, rows_at, tokens_at in zip(
        kinds, orders, flats, places[: len(kinds)], places[len(kinds) :], strict=True
    ):
        first, end = int(flat[0]), int(flat[-1]) + 1
        tokens = slice(first, end) if end - first == len(flat) else tokens_at
        lines = step.page_table[:, : int(lengths[order].max())].index_select(0, step.rows[rows_at])
        parts.append(Part(count, tokens, lines, lengths[order], page_size, upload_all))
    return parts


def spans(sizes: np.ndarray, most: int) -> list[slice]:
    """All rows in order, cut so that the ``sizes`` [B] of each slice sum to ``most`` or less, if it has several rows."""
    cuts, total = [0], 0
    for row, size in enumerate(sizes.tolist() if sizes.sum() > most else []):
        if total + size > most and row > cuts[-1]:
            cuts.append(row)
            total = 0
        total += size
    return [slice(start, end) for start, end in zip(cuts, [*cuts[1:], len(sizes)], strict=True)]
