"""Which rows of a step one attention call can serve: those that compute equally many tokens. Knows no operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sgframe_torch.rows import Ints32, StepInputs


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
    _slots: dict[int, Tensor] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """Tokens of the longest row in KV."""
        return self.lines.shape[1]

    @cached_property
    def pages(self) -> Tensor:
        """int32 [B, pages of the longest row]: the number of each page. Only where rows lie in whole pages."""
        return self.lines[:, :: self.page_size] // self.page_size

    def seen(self, window: int) -> Ints32:
        """[B]: how many of a row's last tokens any of its queries sees, when each sees at most ``window`` (0: all)."""
        return np.minimum(self.lengths, self.count + window - 1, dtype=np.int32) if window else self.lengths

    def slots(self, window: int) -> Tensor:
        """int64 [B, most seen]: the slots of what each row sees, with any slot at all behind them."""
        if window not in self._slots:
            seen = self.seen(window)
            positions = (self.lengths - seen)[:, None] + np.arange(seen.max())
            places = torch.from_numpy(np.minimum(positions, self.longest - 1)).to(self.lines.device)
            self._slots[window] = self.lines.gather(1, places).long()
        return self._slots[window]


def parts_of(step: StepInputs, page_size: int) -> list[Part]:
    """The parts of ``step``. Plans on the host and waits for no device."""
    counts = np.diff(step.host_starts)
    return [_part(step, np.flatnonzero(counts == count), int(count), page_size) for count in np.unique(counts) if count]


def _part(step: StepInputs, order: np.ndarray, count: int, page_size: int) -> Part:
    device = step.page_table.device
    lengths = step.host_lengths[order]
    rows = step.rows if len(order) == len(step.host_lengths) else step.rows[torch.from_numpy(order).to(device)]
    lines = step.page_table[:, : int(lengths.max())].index_select(0, rows)
    flat = (step.host_starts[order][:, None] + np.arange(count)).ravel()
    first, end = int(flat[0]), int(flat[-1]) + 1
    tokens = slice(first, end) if end - first == len(flat) else torch.from_numpy(flat).to(device)
    return Part(count, tokens, lines, lengths, page_size)
