"""The contract of the policy seam as tests: subclass ``PolicyContract``, write ``make`` and state ``max_bypass``.

Also the doubles it uses: a waiting request and a cache view with fixed contents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgframe.interfaces.cache import CacheView, Peek
from sgframe.interfaces.policy import Policy
from sgframe.messages import Ints, Namespace, ints


@dataclass
class WaitingRequest:
    """See sgframe.interfaces.policy.Waiting."""

    id: int
    tokens: Ints
    namespace: Namespace = ()
    priority: int = 0
    passed_over: int = 0


class FixedCache(CacheView):
    """Holds exactly ``prefixes``, in the namespace ``()``, for ever."""

    def __init__(self, *prefixes: Ints) -> None:
        self._prefixes = prefixes

    @property
    def version(self) -> int:
        return 0

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        held = () if namespace else self._prefixes
        matched = max((_common(prefix, tokens[:limit]) for prefix in held), default=0)
        return Peek(matched, "whole" if matched == len(tokens) else "never_seen")


HOT = FixedCache(ints(range(100)))
"""A cache in which prompts counting up from 0 are found."""


class Arrival(NamedTuple):
    """A request about to join the queue."""

    tokens: Ints
    priority: int = 0


def longest_bypass(policy: Policy, cache: CacheView, rounds: Iterable[tuple[Sequence[Arrival], int]]) -> int:
    """Play admission and return the most rounds in which any one request was passed over.

    In each round some requests arrive, and then the policy's first few, as many as the round says, are admitted.
    """
    waiting: list[WaitingRequest] = []
    longest = 0
    ids = count()
    for arrivals, room in rounds:
        waiting += [WaitingRequest(next(ids), arrival.tokens, priority=arrival.priority) for arrival in arrivals]
        admitted = {request.id for request in policy.order(waiting, cache)[:room]}
        waiting = [request for request in waiting if request.id not in admitted]
        for request in waiting:
            request.passed_over += request.id < max(admitted, default=-1)
            longest = max(longest, request.passed_over)
    return longest


def _queue(requests: Iterable[WaitingRequest]) -> list[WaitingRequest]:
    return [replace(request, id=place) for place, request in enumerate(requests)]


_tokens = st.builds(lambda hot, cold: ints([*range(hot), *([999] * cold)]), st.integers(0, 20), st.integers(1, 5))
_priorities = st.integers(-3, 3)
_waiting = st.builds(WaitingRequest, st.just(0), _tokens, priority=_priorities, passed_over=st.integers(0, 40))
_queues = st.lists(_waiting).map(_queue)
_rounds = st.lists(
    st.tuples(st.lists(st.builds(Arrival, _tokens, _priorities), max_size=3), st.integers(0, 3)), max_size=60
)
_contract = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.differing_executors])


class PolicyContract(ABC):
    """What every policy must do. Collected by pytest in a subclass named ``Test…``."""

    @abstractmethod
    def make(self) -> Policy:
        """A new policy."""

    @abstractmethod
    def max_bypass(self) -> int:
        """The bound that the policy's docstring states: in how many rounds a request can be passed over at most."""

    def test_an_empty_queue_stays_empty(self) -> None:
        assert list(self.make().order([], HOT)) == []

    @_contract
    @given(_queues)
    def test_every_request_comes_exactly_once(self, waiting: list[WaitingRequest]) -> None:
        ordered = self.make().order(waiting, HOT)
        assert sorted(request.id for request in ordered) == [request.id for request in waiting]

    @_contract
    @given(_queues)
    def test_the_queue_and_its_requests_are_left_alone(self, waiting: list[WaitingRequest]) -> None:
        before = [replace(request) for request in waiting]
        self.make().order(waiting, HOT)
        assert waiting == before

    @_contract
    @given(_queues, _queues)
    def test_the_order_depends_on_nothing_but_queue_and_cache(
        self, waiting: list[WaitingRequest], others: list[WaitingRequest]
    ) -> None:
        later = [replace(request, id=request.id + len(waiting)) for request in others]
        policy = self.make()
        first = list(policy.order(waiting, HOT))
        policy.order(later, HOT)
        policy.order(waiting, FixedCache())
        assert list(policy.order(waiting, HOT)) == first
        assert list(self.make().order(tuple(waiting), HOT)) == first

    def test_a_cache_miss_is_served_under_an_endless_stream_of_hits(self) -> None:
        hot = [Arrival(ints([*range(96), 999]))] * 4
        cold = Arrival(ints([999] * 50))
        longest = longest_bypass(self.make(), HOT, [([cold, *hot], 1)] + [(hot, 4)] * (4 * self.max_bypass() + 10))
        assert longest <= self.max_bypass(), f"a request was passed over in {longest} rounds"

    @_contract
    @given(_rounds)
    def test_waiting_is_bounded_whatever_arrives(self, rounds: list[tuple[list[Arrival], int]]) -> None:
        longest = longest_bypass(self.make(), HOT, rounds)
        assert longest <= self.max_bypass(), f"a request was passed over in {longest} rounds"


def _common(prefix: Ints, tokens: Ints) -> int:
    pairs = zip(prefix, tokens, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(prefix), len(tokens)))
