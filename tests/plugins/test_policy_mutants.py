"""The policy contract catches faults: each policy here has one, fails the cases named beside it and passes all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from contract_cases import cases_of, failed_cases, fails

from sgframe import PluginSettings
from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Running, Waiting
from sgframe.messages import ints
from sgframe.testing import PolicyContract, WaitingRequest
from sgframe_basic.policy import FirstComeFirstServed
from sgframe_lpm import LpmSettings
from sgframe_lpm.policy import LongestPrefixMatch
from sgframe_priority import PrioritySettings
from sgframe_priority.policy import MostUrgentFirst

BOUND = 400


class Arrival(FirstComeFirstServed):
    def __init__(self) -> None:
        super().__init__(PluginSettings())


class Lpm(LongestPrefixMatch):
    def __init__(self, max_overtaken: int = BOUND) -> None:
        super().__init__(LpmSettings(max_overtaken=max_overtaken))


class Priority(MostUrgentFirst):
    def __init__(self) -> None:
        super().__init__(PrioritySettings(max_overtaken=BOUND))


class DropsOne(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return waiting[:-1]


class RepeatsOne(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return [*waiting, *waiting[:1]]


class InventsOne(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return [*waiting, WaitingRequest(len(waiting), ints([1]))] if waiting else []


class GivesAnIterator(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Any:
        return iter(waiting)


class GivesCopies(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return [replace(request) for request in waiting if isinstance(request, WaitingRequest)]


class FillsAnEmptyQueue(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return waiting or [WaitingRequest(0, ints([1]))]


class NeverAges(Lpm):
    def __init__(self) -> None:
        super().__init__(max_overtaken=10**9)


class AgesATokenLate(Lpm):
    def __init__(self) -> None:
        super().__init__(max_overtaken=BOUND + 1)


class KnowsOneCacheOnly(Lpm):
    cache: CacheView | None = None

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        self.cache = self.cache or cache
        return super().order(waiting, self.cache)


class CountsItself(Arrival):
    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        for request in waiting:
            assert isinstance(request, WaitingRequest)
            request.overtaken += 1
        return list(waiting)


class DisplacesTheUnknown(Priority):
    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        victim = super().victim(waiting, running)
        return replace(victim) if isinstance(victim, WaitingRequest) else None


class TakesTurns(Priority):
    spare = False

    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        self.spare = not self.spare
        return None if self.spare else super().victim(waiting, running)


class DisplacesAnybody(Priority):
    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        return next((request for request in running if request.overtaken < BOUND), None)


class DisplacesTheOverdue(Priority):
    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        return next((request for request in running if request.priority < waiting.priority), None)


PLAYED = {
    "test_a_cache_miss_is_served_under_an_endless_stream_of_hits",
    "test_waiting_is_bounded_whatever_arrives",
}
MUTANTS: list[tuple[type[Policy], int, set[str]]] = [
    (DropsOne, 0, {"test_every_request_comes_exactly_once"}),
    (RepeatsOne, 0, {"test_every_request_comes_exactly_once"}),
    (InventsOne, 0, {"test_every_request_comes_exactly_once"}),
    (GivesAnIterator, 0, {"test_every_request_comes_exactly_once"}),
    (GivesCopies, 0, {"test_every_request_comes_exactly_once"}),
    (FillsAnEmptyQueue, 0, {"test_an_empty_queue_stays_empty", "test_every_request_comes_exactly_once"}),
    (NeverAges, BOUND, {*PLAYED, "test_who_was_overtaken_to_the_bound_stands_before_all_later_arrivals"}),
    (AgesATokenLate, BOUND, {"test_who_was_overtaken_to_the_bound_stands_before_all_later_arrivals"}),
    (KnowsOneCacheOnly, BOUND, {"test_the_order_depends_on_nothing_but_queue_and_cache"}),
    (CountsItself, 0, {"test_requests_are_left_alone"}),
    (DisplacesTheUnknown, BOUND, {"test_a_victim_is_one_of_the_running"}),
    (TakesTurns, BOUND, {"test_a_victim_depends_on_nothing_but_who_waits_and_who_runs"}),
    (DisplacesAnybody, BOUND, {"test_requests_never_displace_each_other_in_a_ring"}),
    (DisplacesTheOverdue, BOUND, PLAYED),
]


class Contract(PolicyContract):
    def __init__(self, policy: type[Policy], max_overtaken: int) -> None:
        self.policy = policy
        self.max_overtaken = max_overtaken

    def make(self) -> Policy:
        return self.policy()


def nothing(names: list[str]) -> dict[str, Any]:
    assert names == [], "the contract asks for fixtures"
    return {}


def failing(policy: type[Policy], max_overtaken: int) -> set[str]:
    return failed_cases(Contract(policy, max_overtaken), nothing)


@pytest.mark.parametrize(
    ("policy", "max_overtaken", "cases"), MUTANTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_fault_fails_its_case_alone(policy: type[Policy], max_overtaken: int, cases: set[str]) -> None:
    assert failing(policy, max_overtaken) == cases


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(PolicyContract)) == set().union(*(cases for _, _, cases in MUTANTS))


@pytest.mark.parametrize(("policy", "max_overtaken"), [(Arrival, 0), (Lpm, BOUND), (Priority, BOUND)])
def test_the_sound_policies_under_the_mutants_pass(policy: type[Policy], max_overtaken: int) -> None:
    assert failing(policy, max_overtaken) == set()


def test_a_policy_that_states_no_bound_is_held_to_65536() -> None:
    class Unstated(PolicyContract):
        def make(self) -> Policy:
            return NeverAges()

    assert fails(Unstated(), "test_who_was_overtaken_to_the_bound_stands_before_all_later_arrivals", nothing)
    assert Unstated.max_overtaken == 65536
