"""Matches: as many tokens as the cache holds of each request, and no question asked twice in vain."""

from __future__ import annotations

from sgframe.interfaces.cache import Stamp, Watched
from sgframe.matches import Matches
from sgframe.messages import Ints, Namespace, ints
from sgframe.testing.queue import HOT, FixedCache, WaitingRequest


class ChangingCache(FixedCache):
    """Finds what ``matched`` says for a prompt's first token; ``asked`` lists those first tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.matched = {1: 10, 2: 20, 3: 30}
        self.stamps: dict[int, Stamp] = {}
        self.asked: list[int] = []

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        self.asked.append(tokens[0])
        stamp = self.stamps[tokens[0]] = Stamp()
        return Watched(self.matched[tokens[0]], stamp)

    def change(self, token: int, matched: int) -> None:
        self.matched[token] = matched
        self.stamps[token].current = False


def request(id: int, length: int = 100) -> WaitingRequest:
    return WaitingRequest(id, ints([id] * length))


def test_lengths_are_the_caches_own() -> None:
    waiting = [WaitingRequest(1, ints([999])), WaitingRequest(2, ints(range(50)))]
    assert Matches().lengths(waiting, HOT) == [0, 50]


def test_what_has_not_changed_is_asked_once() -> None:
    cache, matches = ChangingCache(), Matches()
    matches.lengths([request(1), request(2)], cache)
    assert matches.lengths([request(1), request(2), request(3)], cache) == [10, 20, 30]
    assert cache.asked == [1, 2, 3]


def test_only_what_may_have_changed_is_asked_again() -> None:
    cache, matches = ChangingCache(), Matches()
    matches.lengths([request(1), request(2), request(3)], cache)
    cache.change(2, 25)
    assert matches.lengths([request(1), request(2), request(3)], cache) == [10, 25, 30]
    assert cache.asked == [1, 2, 3, 2]


def test_a_request_that_comes_back_longer_is_asked_again() -> None:
    cache, matches = ChangingCache(), Matches()
    matches.lengths([request(1)], cache)
    cache.matched[1] = 101
    assert matches.lengths([request(1, length=101)], cache) == [101]


def test_those_no_longer_waiting_are_forgotten() -> None:
    cache, matches = ChangingCache(), Matches()
    matches.lengths([request(1), request(2)], cache)
    matches.lengths([request(2)], cache)
    matches.lengths([request(1), request(2)], cache)
    assert cache.asked == [1, 2, 1]


def test_another_cache_is_asked_anew() -> None:
    matches, waiting = Matches(), [WaitingRequest(1, ints(range(50)))]
    assert matches.lengths(waiting, HOT) == [50]
    assert matches.lengths(waiting, FixedCache()) == [0]
