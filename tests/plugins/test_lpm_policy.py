"""The policy lpm: longest cached prefix first, ties by arrival, and nobody waits for ever."""

from __future__ import annotations

from sgframe.messages import ints
from sgframe.testing import PolicyContract, check_plugin
from sgframe.testing.queue import HOT, WaitingRequest
from sgframe_lpm import LpmSettings
from sgframe_lpm.policy import LongestPrefixMatch


class TestLongestPrefixMatch(PolicyContract):
    max_overtaken = 16384

    def make(self) -> LongestPrefixMatch:
        return LongestPrefixMatch(LpmSettings())


class TestWithoutPatience(PolicyContract):
    max_overtaken = 0

    def make(self) -> LongestPrefixMatch:
        return LongestPrefixMatch(LpmSettings(max_overtaken=0))


def order(*waiting: WaitingRequest) -> list[int]:
    policy = LongestPrefixMatch(LpmSettings(max_overtaken=400))
    return [request.id for request in policy.order(waiting, HOT)]


def request(id: int, cached: int, overtaken: int = 0) -> WaitingRequest:
    return WaitingRequest(id, ints([*range(cached), 999]), overtaken=overtaken)


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_lpm") == []


def test_the_longest_cached_prefix_goes_first() -> None:
    assert order(request(1, 10), request(2, 30), request(3, 20)) == [2, 3, 1]


def test_equal_prefixes_go_by_arrival() -> None:
    assert order(request(1, 5), request(2, 9), request(3, 5), request(4, 9)) == [2, 4, 1, 3]


def test_the_overdue_go_before_all_others_by_arrival() -> None:
    waiting = request(1, 50), request(2, 0, overtaken=400), request(3, 7, overtaken=900), request(4, 60, overtaken=399)
    assert order(*waiting) == [2, 3, 4, 1]


def test_a_prefix_counts_only_where_its_namespace_is_cached() -> None:
    salted = WaitingRequest(1, ints(range(50)), namespace=(("salt", "x"),))
    assert order(salted, request(2, 1)) == [2, 1]
