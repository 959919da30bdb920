"""The policy priority: the most urgent first, in the place of others if need be, and nobody waits for ever."""

from __future__ import annotations

from sgframe.messages import ints
from sgframe.testing import PolicyContract, check_plugin
from sgframe.testing.queue import HOT, WaitingRequest
from sgframe_priority import PrioritySettings
from sgframe_priority.policy import MostUrgentFirst


class TestMostUrgentFirst(PolicyContract):
    max_overtaken = 65536

    def make(self) -> MostUrgentFirst:
        return MostUrgentFirst(PrioritySettings())


class TestWithoutPatience(PolicyContract):
    max_overtaken = 0

    def make(self) -> MostUrgentFirst:
        return MostUrgentFirst(PrioritySettings(max_overtaken=0))


def request(id: int, priority: int, overtaken: int = 0) -> WaitingRequest:
    return WaitingRequest(id, ints([999]), priority=priority, overtaken=overtaken)


def order(*waiting: WaitingRequest) -> list[int]:
    policy = MostUrgentFirst(PrioritySettings(max_overtaken=400))
    return [request.id for request in policy.order(waiting, HOT)]


def victim(waiting: WaitingRequest, *running: WaitingRequest, preempt_margin: int = 1) -> int | None:
    policy = MostUrgentFirst(PrioritySettings(max_overtaken=400, preempt_margin=preempt_margin))
    displaced = policy.victim(waiting, running)
    return displaced.id if displaced else None


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_priority") == []


def test_a_request_may_ask_for_a_priority() -> None:
    assert MostUrgentFirst.honours_priority


def test_the_most_urgent_go_first_and_equals_by_arrival() -> None:
    assert order(request(1, -1), request(2, 0), request(3, 5), request(4, 0)) == [3, 2, 4, 1]


def test_the_overdue_go_before_all_others_by_arrival() -> None:
    waiting = request(1, 0), request(2, -9, overtaken=400), request(3, -5, overtaken=900), request(4, 7, overtaken=399)
    assert order(*waiting) == [2, 3, 4, 1]


def test_the_least_urgent_gives_way() -> None:
    assert victim(request(9, 5), request(1, 4), request(2, 0), request(3, 2)) == 2


def test_of_equals_the_latest_arrival_gives_way() -> None:
    assert victim(request(9, 5), request(1, 0), request(3, 0), request(2, 0)) == 3


def test_an_equal_never_gives_way() -> None:
    assert victim(request(1, 5), request(2, 5), request(3, 6)) is None


def test_who_is_not_outranked_by_the_margin_stays() -> None:
    assert victim(request(9, 5), request(1, 3), preempt_margin=3) is None
    assert victim(request(9, 5), request(1, 2), preempt_margin=3) == 1


def test_who_was_overtaken_to_the_bound_stays() -> None:
    assert victim(request(9, 5), request(1, 0, overtaken=400), request(2, 3, overtaken=399)) == 2
