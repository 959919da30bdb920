"""Admission: who of the waiting comes next, whether it fits, and who gives way to it.

Owns the waiting queue and the estimate of memory to come; takes no slots and gives none. None is overtaken for its size:
when the next one does not fit, all behind it wait, too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from sgframe.interfaces.policy import Policy
from sgframe.scheduler.estimator import Estimator
from sgframe.scheduler.lineage import gathered
from sgframe.scheduler.memory import KvMemory
from sgframe.scheduler.queue import WaitingQueue
from sgframe.scheduler.request import Request

log = logging.getLogger(__name__)

REPORTED = 1000
"""A fault that a policy repeats is logged once in so many times."""


class Admission:
    """Decides for one scheduler, which tells ``estimator`` of steps and retractions. ``queue`` holds who waits."""

    def __init__(self, policy: Policy, estimator: Estimator, memory: KvMemory) -> None:
        self.queue = WaitingQueue()
        self.estimator = estimator
        self._policy = policy
        self._memory = memory
        self._preempts = type(policy).victim is not Policy.victim
        self._settled = False
        """Nothing changed since the policy last said that nobody gives way."""
        self._refused: int | None = None
        """The slack that the next one was found to need, while it is still the next one."""
        self._programs = False
        """Requests of programs have come, whose branches belong together. Not against a policy that preempts: it would
        send back whom it did not place first."""
        self._faults: Counter[str] = Counter()
        """The policy's, by what it did."""

    def add(self, request: Request) -> None:
        """``request`` arrived, or was retracted."""
        self.queue.add(request)
        self._programs |= bool(request.lineage) and not self._preempts
        self._refused, self._settled = None, False

    def remove(self, request: Request) -> None:
        """``request`` ended while it waited."""
        self.queue.remove(request)
        self._refused = None

    def close_round(self) -> None:
        """Those who have a row by now wait no more."""
        self.queue.drop_admitted()
        self._settled = False

    def candidates(self, running: Sequence[Request]) -> Iterable[Request]:
        """The waiting ones in the policy's order; none when it is known that the next one does not fit."""
        if not self.queue:
            return ()
        slack = self._slack(running)
        if running and slack <= (self._refused or 0):
            return ()
        self._refused = None
        self.queue.age(running)
        return self._order()

    def shortage(self, request: Request, running: Sequence[Request]) -> int:
        """Slots that are missing for ``request``, which has its lease, to run beside ``running``; 0 if it fits."""
        if not running and self._memory.reclaim(1):
            return 0  # alone it fits, however much the estimate wants
        demand = self.estimator.demand([*running, request])
        available = self._memory.reclaim(max(demand, 1))
        return max(demand - available, int(not available))

    def refuse(self, shortage: int, running: Sequence[Request]) -> None:
        """The next one, which has given back its lease, lacks ``shortage`` slots."""
        self._refused = self._slack(running) + shortage - 1

    def victims(
        self, running: Sequence[Request], free_rows: int, held_back: Callable[[Request], bool]
    ) -> Iterator[Request]:
        """Those of ``running`` that the policy sends back for the sake of waiting ones that do not fit, if that helps; it
        does not for one that is ``held_back``."""
        if not self._preempts or self._settled or not self.queue:
            return
        self._settled = True
        self.queue.age(running)
        left, wanted, freed = list(running), 0, 0
        for request in list(self._order()):
            if held_back(request):
                continue
            matched = self._memory.cache.peek(request.tokens, request.namespace, request.match_limit).matched
            wanted += self.estimator.demand([request]) - matched
            free_rows -= 1
            named = []
            while free_rows < 0 or not self._fits(wanted + self.estimator.demand(left) - freed):
                victim = self._victim(request, left) if left else None
                if victim is None:
                    return
                left.remove(victim)
                named.append(victim)
                free_rows += 1
                freed += len(victim.slots) - victim.matched  # what it found cached may be leased by others, too
            yield from named

    def _fits(self, count: int) -> bool:
        return self._memory.reclaim(count) >= count

    def _slack(self, running: Sequence[Request]) -> int:
        """Slots that nobody of ``running`` will want, at most: leases of programs may have some in common with others."""
        return self._memory.available + self._memory.program_leases.tokens - self.estimator.demand(running)

    def _victim(self, request: Request, running: Sequence[Request]) -> Request | None:
        """As the policy says; nobody if it raises or names one that does not run."""
        try:
            victim = self._policy.victim(request, tuple(running))
            if victim is None or any(victim is one for one in running):
                return victim  # type: ignore[return-value]  # the same object, seen through the policy's protocol
            wrong = f"named {victim!r} as victim, which does not run"
        except Exception as error:  # a plugin's code: its fault must not end the service
            wrong = f"raised {error!r}"
        self._report(wrong, "nobody gives way")
        return None

    def _order(self) -> Sequence[Request]:
        """As the policy says; in order of arrival if it raises, or drops, repeats or invents a request."""
        waiting = self.queue.requests
        try:
            copy = tuple(waiting)  # the queue itself is not the policy's to change
            ordered = self._policy.order(copy, self._memory.cache)
            wrong = fault(waiting, ordered)
            if not wrong:
                return self._gathered(ordered)  # type: ignore[arg-type]  # the same objects, seen through its protocol
        except Exception as error:  # a plugin's code: its fault must not end the service
            wrong = f"raised {error!r}"
        self._report(wrong, "taking requests in order of arrival")
        return self._gathered(waiting)

    def _gathered(self, ordered: Sequence[Request]) -> Sequence[Request]:
        return list(gathered(ordered)) if self._programs else ordered

    def _report(self, wrong: str, consequence: str) -> None:
        """Log what the policy did wrong; of what it does in every round, one in REPORTED."""
        kind = f"{wrong.partition(' ')[0]}; {consequence}"  # the requests it names differ from round to round
        times = self._faults[kind]
        self._faults[kind] += 1
        if times % REPORTED == 0:
            again = f" ({times + 1} times by now)" if times else ""
            log.error("policy %s %s; %s%s", type(self._policy).__name__, wrong, consequence, again)


def fault(waiting: Sequence[Request], ordered: Sequence[object]) -> str:
    """What is wrong with an order, by the ids of the requests concerned; empty if nothing is."""
    if len(ordered) == len(waiting) and set(map(id, ordered)) == set(map(id, waiting)):
        return ""
    known = {id(request): request.id for request in waiting}
    seen: set[int] = set()
    for entry in ordered:
        if id(entry) not in known:
            return f"invented {getattr(entry, 'id', entry)!r}"
        if id(entry) in seen:
            return f"repeated request {known[id(entry)]}"
        seen.add(id(entry))
    return f"dropped request {next(number for key, number in known.items() if key not in seen)}"
