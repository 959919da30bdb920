"""What a policy is shown in tests: requests, a cache view with fixed contents, and an admission in small."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sgframe.interfaces.cache import CacheView, Peek, Stamp, Watched
from sgframe.interfaces.policy import Policy
from sgframe.messages import Ints, Namespace, ints


@dataclass
class WaitingRequest:
    """See sgframe.interfaces.policy.Waiting; once admitted, see Running."""

    id: int
    tokens: Ints
    namespace: Namespace = ()
    priority: int = 0
    overtaken: int = 0
    computed: int = 0


class FixedCache(CacheView):
    """Holds exactly ``prefixes``, in the namespace ``()``, for ever."""

    def __init__(self, *prefixes: Ints) -> None:
        self._prefixes = prefixes

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        held = () if namespace else self._prefixes
        matched = max((_common(prefix, tokens[:limit]) for prefix in held), default=0)
        reason = "whole" if matched == len(tokens) else "limit" if matched == limit else "never_seen"
        return Peek(matched, reason)

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        return Watched(self.peek(tokens, namespace).matched, Stamp())


HOT = FixedCache(ints(range(100)))
"""A cache in which prompts counting up from 0 are found."""


class Arrival(NamedTuple):
    """A request about to join the queue; it will generate ``output`` tokens."""

    tokens: Ints
    priority: int = 0
    output: int = 1


class Admission:
    """A scheduler in small: ``seats`` requests run at once, the policy says who takes one, and who gives his up.

    Who is admitted costs the tokens of his prompt that are not cached and those of his output. They count as overtaking,
    from the next round on, for all who arrived earlier and wait. Raises AssertionError when a request is admitted
    although one that arrived earlier waits and was overtaken by ``max_overtaken`` tokens.
    """

    def __init__(self, policy: Policy, cache: CacheView, max_overtaken: int, seats: int) -> None:
        self._policy = policy
        self._cache = cache
        self._max_overtaken = max_overtaken
        self._seats = seats
        self._outputs: list[int] = []
        self.waiting: dict[int, WaitingRequest] = {}
        self.running: list[WaitingRequest] = []

    def round(self, arrivals: Iterable[Arrival], finished: int) -> None:
        """``arrivals`` join the queue, the ``finished`` that run longest end, and the seats are filled."""
        for arrival in arrivals:
            id = len(self._outputs)
            self.waiting[id] = WaitingRequest(id, arrival.tokens[:], priority=arrival.priority)
            self._outputs.append(arrival.output)
        del self.running[:finished]
        for id, cost in self._admit().items():
            for request in self.waiting.values():
                request.overtaken += cost if request.id < id else 0

    def _admit(self) -> dict[int, int]:
        """Fill the seats; gives what each admitted request costs in tokens, by id."""
        requests = [*self.waiting.values(), *self.running]
        overdue = {request.id for request in requests if request.overtaken >= self._max_overtaken}
        costs = {}
        for request in self._policy.order(self._queue(), self._cache):
            if request.id not in self.waiting or not self._make_room(request.id):
                break
            admitted = self.waiting.pop(request.id)
            passed = [id for id in self.waiting if id < admitted.id and id in overdue]
            assert not passed, (
                f"request {admitted.id} went before request {passed[0]}, which had been overtaken by "
                f"{self._max_overtaken} tokens or more"
            )
            cached = self._cache.peek(admitted.tokens, limit=len(admitted.tokens) - 1).matched
            costs[admitted.id] = len(admitted.tokens) - cached + self._outputs[admitted.id]
            admitted.computed = len(admitted.tokens)
            self.running.append(admitted)
        return costs

    def _queue(self) -> list[WaitingRequest]:
        return sorted(self.waiting.values(), key=lambda request: request.id)

    def _make_room(self, id: int) -> bool:
        """Whether a seat is free, if need be by retracting the policy's victim with one token of its output."""
        if len(self.running) < self._seats:
            return True
        victim = self._policy.victim(self.waiting[id], self.running)
        place = next((place for place, request in enumerate(self.running) if request is victim), None)
        if place is None:
            return False
        retracted = self.running.pop(place)
        retracted.computed = 0
        retracted.tokens.append(retracted.id)
        self.waiting[retracted.id] = retracted
        return True


def _common(prefix: Ints, tokens: Ints) -> int:
    pairs = zip(prefix, tokens, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(prefix), len(tokens)))
