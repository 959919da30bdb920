"""The policy lpm: longest cached prefix first, ties by arrival, and nobody waits for ever."""

from __future__ import annotations

import pytest

from sgframe.interfaces.cache import CacheView, Peek
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.policy import HOT, PolicyContract, WaitingRequest
from sgframe_lpm import LpmSettings
from sgframe_lpm.policy import LongestPrefixMatch


class TestLongestPrefixMatch(PolicyContract):
    def make(self) -> LongestPrefixMatch:
        return LongestPrefixMatch(LpmSettings())

    def max_bypass(self) -> int:
        return 16


class TestWithoutPatience(PolicyContract):
    def make(self) -> LongestPrefixMatch:
        return LongestPrefixMatch(LpmSettings(max_rounds=0))

    def max_bypass(self) -> int:
        return 0


class NeverAges(PolicyContract):
    def make(self) -> LongestPrefixMatch:
        return LongestPrefixMatch(LpmSettings(max_rounds=10**9))

    def max_bypass(self) -> int:
        return 16


class CountingCache(CacheView):
    """Finds as many tokens as the prompt's first token says, and counts how often it is asked."""

    version = 0

    def __init__(self) -> None:
        self.peeks = 0

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        self.peeks += 1
        return Peek(tokens[0], "never_seen")


def order(policy: LongestPrefixMatch, cache: CacheView, *waiting: WaitingRequest) -> list[int]:
    return [request.id for request in policy.order(waiting, cache)]


def request(id: int, cached: int, passed_over: int = 0, length: int = 100) -> WaitingRequest:
    return WaitingRequest(id, ints([cached] + [0] * (length - 1)), passed_over=passed_over)


def policy() -> LongestPrefixMatch:
    return LongestPrefixMatch(LpmSettings(max_rounds=4))


def test_the_longest_cached_prefix_goes_first() -> None:
    assert order(policy(), CountingCache(), request(1, 10), request(2, 30), request(3, 20)) == [2, 3, 1]


def test_equal_prefixes_go_by_arrival() -> None:
    assert order(policy(), CountingCache(), request(1, 5), request(2, 9), request(3, 5), request(4, 9)) == [2, 4, 1, 3]


def test_the_overdue_go_before_all_others_by_arrival() -> None:
    waiting = request(1, 50), request(2, 0, passed_over=4), request(3, 7, passed_over=9), request(4, 60, passed_over=3)
    assert order(policy(), CountingCache(), *waiting) == [2, 3, 4, 1]


def test_the_contract_fails_a_policy_that_never_ages() -> None:
    with pytest.raises(AssertionError, match="passed over in"):
        NeverAges().test_a_cache_miss_is_served_under_an_endless_stream_of_hits()


def test_an_unchanged_cache_is_asked_once_for_each_request() -> None:
    cache, lpm = CountingCache(), policy()
    order(lpm, cache, request(1, 1), request(2, 2))
    assert order(lpm, cache, request(1, 1), request(2, 2), request(3, 3)) == [3, 2, 1]
    assert cache.peeks == 3


def test_a_changed_cache_is_asked_again() -> None:
    cache, lpm = CountingCache(), policy()
    order(lpm, cache, request(1, 1), request(2, 2))
    cache.version += 1
    assert order(lpm, cache, request(1, 7), request(2, 2)) == [1, 2]


def test_a_request_that_comes_back_longer_is_looked_up_again() -> None:
    cache, lpm = CountingCache(), policy()
    order(lpm, cache, request(1, 1), request(2, 2))
    assert order(lpm, cache, request(1, 9, length=101), request(2, 2)) == [1, 2]


def test_those_no_longer_waiting_are_forgotten() -> None:
    cache, lpm = CountingCache(), policy()
    order(lpm, cache, request(1, 1))
    order(lpm, cache)
    order(lpm, cache, request(1, 1))
    assert cache.peeks == 2


def test_another_cache_of_the_same_version_is_not_confused() -> None:
    lpm = policy()
    hot, cold = WaitingRequest(2, ints(range(50))), WaitingRequest(1, ints([999, *range(49)]))
    assert order(lpm, CountingCache(), cold, hot) == [1, 2]
    assert order(lpm, HOT, cold, hot) == [2, 1]
