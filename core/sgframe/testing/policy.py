"""The contract of the policy seam as tests: subclass ``PolicyContract``, write ``make`` and state ``max_overtaken``.

Also the doubles it uses: a request, a cache view with fixed contents, and an admission in small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

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


def _numbered(requests: Iterable[WaitingRequest]) -> list[WaitingRequest]:
    return [replace(request, id=place) for place, request in enumerate(requests)]


_prompts = [ints([*range(hot), *[999] * cold]) for hot, cold in product((0, 1, 7, 20), (1, 9))]
_tokens = st.sampled_from(_prompts).map(lambda prompt: prompt[:])
_priorities = st.integers(-2, 2)
_waiting = st.builds(WaitingRequest, st.just(0), _tokens, priority=_priorities, overtaken=st.integers(0, 2))
_queues = st.lists(_waiting, max_size=6).map(_numbered)
_quarters = st.integers(0, 4)  # of the policy's bound
_arrivals = st.lists(st.builds(Arrival, _tokens, _priorities, _quarters), min_size=1, max_size=2)
_rounds = st.lists(st.tuples(_arrivals, st.integers(0, 2)), min_size=5, max_size=15)
_contract = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.differing_executors],
)


class PolicyContract(ABC):
    """What every policy must do. Collected by pytest in a subclass named ``Test…``."""

    @abstractmethod
    def make(self) -> Policy:
        """A new policy."""

    @abstractmethod
    def max_overtaken(self) -> int:
        """The bound that the policy's docstring states: overtaken by so many tokens, a request goes before later ones."""

    def test_an_empty_queue_stays_empty(self) -> None:
        assert list(self.make().order([], HOT)) == []

    @_contract
    @given(_queues)
    def test_every_request_comes_exactly_once(self, waiting: list[WaitingRequest]) -> None:
        ordered = self.make().order(waiting, HOT)
        assert sorted(request.id for request in ordered) == [request.id for request in waiting]

    @_contract
    @given(_queues, _queues)
    def test_requests_are_left_alone(self, waiting: list[WaitingRequest], running: list[WaitingRequest]) -> None:
        before = deepcopy((waiting, running))
        policy = self.make()
        policy.order(waiting, HOT)
        for request in waiting:
            policy.victim(request, running)
        assert (waiting, running) == before

    @_contract
    @given(_queues, _queues)
    def test_the_order_depends_on_nothing_but_queue_and_cache(
        self, waiting: list[WaitingRequest], others: list[WaitingRequest]
    ) -> None:
        later = [replace(request, id=request.id + len(waiting)) for request in others]
        policy = self.make()
        first = list(policy.order(waiting, HOT))
        policy.order(later, HOT)
        assert list(policy.order(waiting, FixedCache())) == list(self.make().order(waiting, FixedCache()))
        assert list(policy.order(waiting, HOT)) == first
        assert list(self.make().order(tuple(waiting), HOT)) == first

    @_contract
    @given(_queues)
    def test_who_was_overtaken_to_the_bound_stands_before_all_later_arrivals(
        self, waiting: list[WaitingRequest]
    ) -> None:
        bound = self.max_overtaken()
        for request in waiting:
            request.overtaken = max(0, bound - 1 + request.overtaken)
        ordered = [request.id for request in self.make().order(waiting, HOT)]
        for place, id in enumerate(ordered):
            overdue = [request.id for request in waiting if request.id < id and request.overtaken >= bound]
            passed = [earlier for earlier in overdue if earlier not in ordered[:place]]
            assert not passed, f"request {id} stands before request {passed[0]}, which came earlier and is overdue"

    def test_a_cache_miss_is_served_under_an_endless_stream_of_hits(self) -> None:
        """A long, cold, unimportant request against short, hot and urgent ones."""
        hot = [Arrival(ints([*range(96), 999]), priority=1, output=1 + self.max_overtaken() // 100)] * 4
        admission = Admission(self.make(), HOT, self.max_overtaken(), seats=4)
        admission.round([Arrival(ints([999] * 200)), *hot], 0)
        for _ in range(100):
            admission.round(hot, 4)
        assert 0 not in admission.waiting, "the cold request still waits"

    @_contract
    @given(_rounds)
    def test_waiting_is_bounded_whatever_arrives(self, rounds: list[tuple[list[Arrival], int]]) -> None:
        admission = Admission(self.make(), HOT, self.max_overtaken(), seats=2)
        for arrivals, finished in rounds:
            scaled = [arrival._replace(output=1 + arrival.output * self.max_overtaken() // 4) for arrival in arrivals]
            admission.round(scaled, finished)

    @_contract
    @given(_queues, _queues)
    def test_a_victim_is_one_of_the_running(self, waiting: list[WaitingRequest], running: list[WaitingRequest]) -> None:
        policy = self.make()
        victims = [policy.victim(request, running) for request in waiting]
        assert all(victim is None or any(victim is request for request in running) for victim in victims)

    @_contract
    @given(_queues, _queues)
    def test_a_victim_depends_on_nothing_but_who_waits_and_who_runs(
        self, waiting: list[WaitingRequest], running: list[WaitingRequest]
    ) -> None:
        policy = self.make()
        first = [policy.victim(request, running) for request in waiting]
        assert [policy.victim(request, running) for request in waiting] == first
        assert [self.make().victim(request, tuple(running)) for request in waiting] == first

    @_contract
    @given(_queues)
    def test_requests_never_displace_each_other_in_a_ring(self, requests: list[WaitingRequest]) -> None:
        policy = self.make()
        aged = [replace(request, overtaken=request.overtaken + self.max_overtaken()) for request in requests]
        displaces: dict[int, set[int]] = {}
        for waiting, running in product([*requests, *aged], repeat=2):
            if waiting.id != running.id and policy.victim(waiting, [running]) is running:
                displaces.setdefault(waiting.id, set()).add(running.id)
        try:
            TopologicalSorter(displaces).prepare()
        except CycleError as error:
            raise AssertionError(f"these displace each other in a ring: {error.args[1]}") from error


def _common(prefix: Ints, tokens: Ints) -> int:
    pairs = zip(prefix, tokens, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(prefix), len(tokens)))
