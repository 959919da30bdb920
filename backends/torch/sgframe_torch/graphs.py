"""Decode steps recorded once and played again: starting a whole model costs one launch instead of hundreds.

Owns the tensors that recorded work reads and writes. Knows which steps can be replayed, and of the device only what
DeviceOps says of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgframe.errors import ModelError
from sgframe.messages import LedgerLine
from sgframe_torch.kv import LayerKV
from sgframe_torch.models import Model
from sgframe_torch.ops import DeviceOps
from sgframe_torch.rows import StepInputs

_SMALL = (1, 2, 4)
_STRIDE = 8
_ALIGNED = 16
"""Lines of inputs begin at multiples of so many elements, as device kernels like them."""


def bucket_sizes(max_rows: int) -> list[int]:
    """The numbers of rows to record: 1, 2, 4, then every multiple of 8 below ``max_rows``, and ``max_rows`` itself."""
    return sorted({*(rows for rows in _SMALL if rows < max_rows), *range(_STRIDE, max_rows, _STRIDE), max_rows})


@dataclass(frozen=True, slots=True)
class FixedStep(StepInputs):
    """A step of one token a row whose tensors stay where they are while their contents change: what a recording reads.

    Of the arrays on the host only the shapes tell anything: the lengths will be others whenever it is replayed.
    """


class DecodeGraphs:
    """Recordings of ``model`` for steps of up to ``max_rows`` rows with one token each, made when this is built.

    All of them are made before the first request, the largest first, whose scratch memory the others share: a recording
    takes a fraction of a second and memory that KV would otherwise have claimed, and neither may strike in service.
    A step of fewer rows than its recording is padded. A padded row writes to ``spare_slot``, which nobody reads, reads
    one token through the first line of ``page_table``, and what it gives is cut off.

    Raises ModelError when the model cannot be recorded.

    Attributes:
        ledger_line: what the recordings have taken of the device's memory.
    """

    def __init__(
        self,
        model: Model,
        kv: Sequence[LayerKV],
        ops: DeviceOps,
        page_table: Tensor,
        max_rows: int,
        spare_slot: int,
    ) -> None:
        self._model, self._kv, self._ops = model, list(kv), ops
        self._buckets = bucket_sizes(max_rows)
        self._inputs = _Inputs(page_table, max_rows, spare_slot, ops.device)
        before = ops.available_memory()
        self._hidden, self._logits = self._outputs(max_rows)
        self._replays = {rows: self._record(rows) for rows in reversed(self._buckets)}
        taken = max(before - ops.available_memory(), 0)
        self.ledger_line = LedgerLine("graphs", taken, "measured", f"of decode steps, for up to {max_rows} rows")

    def run(self, step: StepInputs) -> tuple[Tensor, Tensor] | None:
        """The last hidden states [R, hidden] and logits [R, vocab] of the R rows of ``step``, or None if it has to be
        computed without a recording: not one token a row, more rows than recorded, token trees.

        Both are views that the next run overwrites. The next step may all the same be started before anybody has read
        them: a device does what it is told on one stream in the order of telling, so that what was started to read them
        reads first.
        """
        count = len(step.host_lengths)
        if not step.paged or not 0 < count <= self._buckets[-1] or (np.diff(step.host_starts) != 1).any():
            return None
        self._inputs.set(step)
        self._replays[self._buckets[bisect_left(self._buckets, count)]]()
        return self._hidden[:count], self._logits[:count]

    def _outputs(self, rows: int) -> tuple[Tensor, Tensor]:
        """Room for what a run gives; it is learned from one."""
        hidden, logits = self._compute(self._inputs.step(rows))
        return torch.empty_like(hidden), torch.empty_like(logits)

    def _record(self, rows: int) -> Callable[[], None]:
        step = self._inputs.step(rows)

        def run() -> None:
            hidden, logits = self._compute(step)
            self._hidden[:rows].copy_(hidden)
            self._logits[:rows].copy_(logits)

        run()  # whatever is compiled or set up at a first call cannot be recorded
        try:
            return self._ops.capture(run)
        except RuntimeError as error:
            raise ModelError(
                f"a step of {rows} rows of this model cannot be recorded as a graph on {self._ops.device}: {error}; "
                "set graphs to false in the backend's settings"
            ) from error

    def _compute(self, step: StepInputs) -> tuple[Tensor, Tensor]:
        self._ops.begin(step)
        hidden = self._model.hidden(step, self._kv)
        return hidden, self._model.logits(hidden)


class _Inputs:
    """The arrays that all recordings read, each its first entries. Entries without a row are padding."""

    def __init__(self, page_table: Tensor, max_rows: int, spare_slot: int, device: torch.device) -> None:
        width = -(-max_rows // _ALIGNED) * _ALIGNED
        self._page_table = page_table
        self._pad_wide = torch.tensor([[0], [0], [spare_slot]], dtype=torch.int64, device=device)
        self._pad_narrow = torch.tensor([[0], [1]], dtype=torch.int32, device=device)
        self._wide, self._narrow = self._pad_wide.repeat(1, width), self._pad_narrow.repeat(1, width)
        self._tokens, self._positions, self._slots = self._wide
        self._rows, self._lengths = self._narrow
        self._starts = torch.arange(max_rows + 1, dtype=torch.int32, device=device)
        self._count = 0

    def step(self, rows: int) -> FixedStep:
        """The first ``rows`` entries."""
        return FixedStep(
            tokens=self._tokens[:rows],
            positions=self._positions[:rows],
            slots=self._slots[:rows],
            rows=self._rows[:rows],
            query_starts=self._starts[: rows + 1],
            kv_lengths=self._lengths[:rows],
            page_table=self._page_table,
            host_starts=np.arange(rows + 1, dtype=np.int32),
            host_lengths=np.ones(rows, dtype=np.int32),
        )

    def set(self, step: StepInputs) -> None:
        """Put the rows of ``step`` to the front; behind them is padding."""
        count, before = len(step.host_lengths), self._count
        if count < before:
            self._wide[:, count:before] = self._pad_wide
            self._narrow[:, count:before] = self._pad_narrow
        self._tokens[:count] = step.tokens
        self._positions[:count] = step.positions
        self._slots[:count] = step.slots
        self._rows[:count] = step.rows
        self._lengths[:count] = step.kv_lengths
        self._count = count
