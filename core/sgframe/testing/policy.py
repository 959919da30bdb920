"""The contract of the policy seam as tests: subclass ``PolicyContract`` as ``TestMine`` and give ``make``.

class TestMyPolicy(PolicyContract):
    max_overtaken = 400

    def make(self):
        return MyPolicy(MySettings(max_overtaken=400))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import ClassVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sgframe.interfaces.policy import Policy
from sgframe.messages import ints
from sgframe.testing.contract import Contract
from sgframe.testing.queue import HOT, Admission, Arrival, FixedCache, WaitingRequest


def _numbered(requests: list[WaitingRequest]) -> list[WaitingRequest]:
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


class PolicyContract(Contract):
    """What every policy must do. Collected by pytest in a subclass named ``Test…``."""

    max_overtaken: ClassVar[int] = 65536
    """The bound that the policy's docstring states: overtaken by so many tokens, a request goes before all later ones. A
    policy that states no smaller one is held to this."""

    @abstractmethod
    def make(self) -> Policy:
        """A new policy."""

    def test_an_empty_queue_stays_empty(self) -> None:
        assert list(self.make().order([], HOT)) == []

    @_contract
    @given(_queues)
    def test_every_request_comes_exactly_once(self, waiting: list[WaitingRequest]) -> None:
        ordered = self.make().order(waiting, HOT)
        assert isinstance(ordered, Sequence), "an order is a list or another sequence"
        assert sorted(request.id for request in ordered) == [request.id for request in waiting]
        assert set(map(id, ordered)) == set(map(id, waiting)), "an order has the requests themselves, not copies"

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
        bound = self.max_overtaken
        for request in waiting:
            request.overtaken = max(0, bound - 1 + request.overtaken)
        ordered = [request.id for request in self.make().order(waiting, HOT)]
        for place, id in enumerate(ordered):
            overdue = [request.id for request in waiting if request.id < id and request.overtaken >= bound]
            passed = [earlier for earlier in overdue if earlier not in ordered[:place]]
            assert not passed, f"request {id} stands before request {passed[0]}, which came earlier and is overdue"

    def test_a_cache_miss_is_served_under_an_endless_stream_of_hits(self) -> None:
        """A long, cold, unimportant request against short, hot and urgent ones."""
        hot = [Arrival(ints([*range(96), 999]), priority=1, output=1 + self.max_overtaken // 100)] * 4
        admission = Admission(self.make(), HOT, self.max_overtaken, seats=4)
        admission.round([Arrival(ints([999] * 200)), *hot], 0)
        for _ in range(100):
            admission.round(hot, 4)
        assert 0 not in admission.waiting, "the cold request still waits"

    @_contract
    @given(_rounds)
    def test_waiting_is_bounded_whatever_arrives(self, rounds: list[tuple[list[Arrival], int]]) -> None:
        admission = Admission(self.make(), HOT, self.max_overtaken, seats=2)
        for arrivals, finished in rounds:
            scaled = [arrival._replace(output=1 + arrival.output * self.max_overtaken // 4) for arrival in arrivals]
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
        aged = [replace(request, overtaken=request.overtaken + self.max_overtaken) for request in requests]
        displaces: dict[int, set[int]] = {}
        for waiting, running in product([*requests, *aged], repeat=2):
            if waiting.id != running.id and policy.victim(waiting, [running]) is running:
                displaces.setdefault(waiting.id, set()).add(running.id)
        try:
            TopologicalSorter(displaces).prepare()
        except CycleError as error:
            raise AssertionError(f"these displace each other in a ring: {error.args[1]}") from error
