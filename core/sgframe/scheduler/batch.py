"""Builds the ScheduleBatch of a step: the diff between what the worker knows and what it must compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sgframe.messages import Ints, NewRow, Rewrite, ScheduleBatch, ints
from sgframe.scheduler.request import Request


@dataclass(slots=True)
class Scheduled:
    """One row of a batch in flight. ``stint`` is the request's at that time: another one has nothing to do with it."""

    request: Request
    stint: int
    count: int
    samples: bool

    @property
    def late(self) -> bool:
        """The request has ended or was retracted since: what comes for this row is dropped."""
        return self.request.row < 0 or self.request.stint != self.stint


@dataclass(slots=True)
class InFlight:
    """A batch that was sent and not answered yet. ``tainted``: it builds on a step that failed."""

    step: int
    scheduled: Sequence[Scheduled]
    tainted: bool = False


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

    def rewrite(self, request: Request, slots: Ints) -> None:
        """From now on ``request`` reads its first tokens from ``slots``."""
        self.rewrites.append(Rewrite(request.row, 0, slots))

    def compute(self, request: Request, count: int) -> None:
        """Schedule the next ``count`` tokens of ``request``, which has slots for them."""
        start = request.scheduled
        end = start + count
        samples = end == len(request.tokens) + request.promised and request.max_tokens > 0
        request.scheduled = end
        request.promised += samples
        request.given += count
        self.rows.append(request.row)
        self.counts.append(count)
        self.slots.extend(request.slots[start:end])
        self.samples.append(samples)
        self.scheduled.append(Scheduled(request, request.stint, count, samples))

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
