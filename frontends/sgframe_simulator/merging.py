"""Merges decode steps between which nothing can happen: a scheduler is put where those steps would have taken it.

Knows how a request's progress is counted (see ``Request``); decides nothing of what is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from sgframe.messages import ScheduleBatch, ints
from sgframe.scheduler.request import Request
from sgframe.scheduler.scheduler import Scheduler

WHILE_WAITING = 16
"""Steps after which is looked whether there is more room for somebody who waits."""


def only_decodes(batch: ScheduleBatch) -> bool:
    """Whether every row of ``batch`` computes its last token and samples the next."""
    return sum(batch.counts) == len(batch.rows) == sum(batch.samples) and not batch.admitted


def steps_until_change(scheduler: Scheduler, step_seconds: float, until_arrival: float) -> int:
    """How many steps like the one in flight, that one included, go by until something else can happen.

    That is: until a first token comes, an output ends, a request arrives, or memory for a token more of each row is lacking.
    """
    decoding = _decoding(scheduler)
    outputs = [request.output_len for request in decoding]
    if not all(outputs):
        return 1  # somebody's first token
    ending = min([request.max_tokens - output for request, output in zip(decoding, outputs, strict=True)])
    spare = scheduler.memory.available - len(decoding) * (scheduler.limits.page_size - 1)
    most = min(ending, 1 + max(0, spare) // len(decoding))
    return most if until_arrival > most * step_seconds else max(1, ceil(until_arrival / step_seconds))


def skip(scheduler: Scheduler, steps: int, token_of: Callable[[int], int]) -> int:
    """Let ``steps`` decode steps of the rows in flight have gone by already; request i samples ``token_of(i)``.

    Fewer if somebody waits and there comes to be more room than now. Returns how many went by.
    """
    decoding = _decoding(scheduler)
    if not scheduler.waiting:
        _skip(scheduler, decoding, steps, token_of)
        return steps
    skipped, room = 0, _room(scheduler)
    while skipped < steps and _room(scheduler) <= room:
        count = min(steps - skipped, WHILE_WAITING)
        _skip(scheduler, decoding, count, token_of)
        skipped += count
    return skipped


def _skip(scheduler: Scheduler, decoding: Sequence[Request], steps: int, token_of: Callable[[int], int]) -> None:
    scheduler.memory.grow_all(decoding, steps)
    for request in decoding:
        request.tokens.extend(ints([token_of(request.id)]) * steps)
        request.scheduled += steps
        request.computed += steps
        request.given += steps
    for _ in range(steps):
        scheduler.admission.estimator.stepped()


def _room(scheduler: Scheduler) -> int:
    """Slots that the running requests leave, by the estimate: admission waits for more of it."""
    return scheduler.memory.available - scheduler.admission.estimator.demand(scheduler.running)


def _decoding(scheduler: Scheduler) -> list[Request]:
    return [request for request in scheduler.running if request.promised]
