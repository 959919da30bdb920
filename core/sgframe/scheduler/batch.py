"""Builds the ScheduleBatch of a step: the diff between what the worker knows and what it must compute."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgframe.messages import Ints, NewRow, Rewrite, ScheduleBatch, ints
from sgframe.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One row of the batch in flight."""

    request: Request
    count: int
    samples: bool


@dataclass(slots=True)
class BatchBuilder:
    """Collects the changes since the last batch, then the rows of this one.

    A row that is released and then given to another request within one step is fine: the worker applies ``released``
    before ``admitted``.
    """

    released: Ints = field(default_factory=ints)
    admitted: list[NewRow] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)
    rows: Ints = field(default_factory=ints)
    counts: Ints = field(default_factory=ints)
    slots: Ints = field(default_factory=ints)
    samples: Ints = field(default_factory=ints)
    scheduled: list[Scheduled] = field(default_factory=list)

    def release(self, row: int) -> None:
        self.released.append(row)
        self.rewrites = [rewrite for rewrite in self.rewrites if rewrite.row != row]

    def admit(self, request: Request) -> None:
        """Announce ``request`` in its row, with the cached slots it starts from."""
        self.admitted.append(
            NewRow(
                row=request.row,
                tokens=request.tokens[:],
                prompt_len=request.prompt_len,
                slots=request.slots[:],
                sampling=request.sampling,
                logprobs_from=request.logprobs_from,
            )
        )

    def compute(self, request: Request, slots: Ints) -> None:
        """Schedule the next ``len(slots)`` known tokens of ``request``."""
        count = len(slots)
        samples = request.computed + count == len(request.tokens) and request.remaining > 0
        request.slots.extend(slots)
        self.rows.append(request.row)
        self.counts.append(count)
        self.slots.extend(slots)
        self.samples.append(samples)
        self.scheduled.append(Scheduled(request, count, samples))

    def finish(self, step: int) -> ScheduleBatch:
        return ScheduleBatch(
            step=step,
            released=self.released,
            admitted=self.admitted,
            rewrites=self.rewrites,
            rows=self.rows,
            counts=self.counts,
            slots=self.slots,
            samples=self.samples,
        )
