"""Builds the ScheduleBatch of a step: the diff between what the worker knows and what it must compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sgframe.messages import Appended, Guess, Ints, NewRow, Rewrite, ScheduleBatch, ints
from sgframe.scheduler.request import Request


@dataclass(slots=True)
class InFlight:
    """A batch that was sent and not answered yet: row by row the request, its stint, how many tokens, and after how many
    of them it samples.

    ``masked``: the worker still waits for its masks. ``verifies``: some of the tokens are guesses.
    """

    step: int
    requests: list[Request]
    stints: list[int]
    counts: Ints
    samples: Ints
    masked: bool = False
    verifies: bool = False

    def __iter__(self) -> Iterator[tuple[Request, int, int, int]]:
        return zip(self.requests, self.stints, self.counts, self.samples, strict=True)


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
    requests: list[Request] = field(default_factory=list)
    appended: list[Appended] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)
    masked: bool = False

    def release(self, row: int) -> None:
        self.released.append(row)
        self.rewrites = [rewrite for rewrite in self.rewrites if rewrite.row != row]

    def admit(self, request: Request) -> None:
        """Announce ``request`` in its row, with the cached slots it starts from."""
        self.admitted.append(
            NewRow(
                row=request.row,
                tokens=request.tokens[:],
                prompt_len=min(request.prompt_len, request.shareable),
                slots=request.slots[:],
                sampling=request.sampling,
                logprobs_from=request.logprobs_from,
                tree=request.tree,
            )
        )
        request.told = len(request.tokens)

    def rewrite(self, request: Request, slots: Ints) -> None:
        """From now on ``request`` reads its first tokens from ``slots``."""
        self.rewrites.append(Rewrite(request.row, 0, slots))

    def compute(self, request: Request, count: int) -> None:
        """Schedule the next ``count`` tokens of ``request``, which has slots for them."""
        if request.told < len(request.tokens):
            self._tell(request)
        start = request.scheduled
        end = request.scheduled = start + count
        samples = end == len(request.tokens) + request.promised and request.max_tokens > 0
        request.promised += samples
        request.told += samples
        self.masked |= samples and request.guide is not None
        request.given += count
        self.rows.append(request.row)
        self.counts.append(count)
        self.slots.extend(request.slots[start:end])
        self.samples.append(samples)
        self.requests.append(request)

    def compute_one_each(self, requests: list[Request]) -> None:
        """The same for one token of each of ``requests``."""
        self.rows.extend([request.row for request in requests])
        self.counts.extend(ints([1]) * len(requests))
        self.slots.extend([request.slots[request.scheduled] for request in requests])
        self.requests += requests
        sample = self.samples.append
        for request in requests:
            if request.told < len(request.tokens):
                self._tell(request)
            end = request.scheduled = request.scheduled + 1
            request.given += 1
            samples = end == len(request.tokens) + request.promised and request.max_tokens > 0
            request.promised += samples
            request.told += samples
            self.masked |= samples and request.guide is not None
            sample(samples)

    def verify(self, request: Request, guesses: Ints) -> None:
        """Schedule the last token of ``request`` and ``guesses`` after it; it has slots for them."""
        count = 1 + len(guesses)
        start = request.scheduled
        request.scheduled += count
        request.promised += 1
        request.told += 1
        request.given += count
        self.rows.append(request.row)
        self.counts.append(count)
        self.slots.extend(request.slots[start : start + count])
        self.samples.append(count)
        self.requests.append(request)
        self.guesses.append(Guess(request.row, guesses))

    def _tell(self, request: Request) -> None:
        """The worker learns the tokens of ``request`` that it has not sampled itself."""
        self.appended.append(Appended(request.row, request.tokens[request.told :]))
        request.told = len(request.tokens)

    def finish(self, step: int) -> tuple[ScheduleBatch, InFlight]:
        """The batch as it goes to the worker, and what is kept of it until it is answered."""
        batch = ScheduleBatch(
            step=step,
            released=self.released,
            admitted=self.admitted,
            rewrites=self.rewrites,
            rows=self.rows,
            counts=self.counts,
            slots=self.slots,
            samples=self.samples,
            masked=self.masked,
            appended=self.appended,
            guesses=self.guesses,
        )
        stints = [request.stint for request in self.requests]
        verifies = bool(self.guesses)
        return batch, InFlight(step, self.requests, stints, self.counts, self.samples, self.masked, verifies)
