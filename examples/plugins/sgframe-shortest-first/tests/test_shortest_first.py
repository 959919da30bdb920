"""The policy keeps sgframe's contract, and does what its name says."""

from __future__ import annotations

from sgframe_shortest_first import ShortestFirstSettings
from sgframe_shortest_first.policy import ShortestFirst

from sgframe.messages import Ints, ints
from sgframe.testing import FixedCache, PolicyContract, WaitingRequest, check_plugin

BOUND = 400


def make() -> ShortestFirst:
    return ShortestFirst(ShortestFirstSettings(max_overtaken=BOUND))


def order(*requests: WaitingRequest, cached: Ints | None = None) -> list[int]:
    return [request.id for request in make().order(requests, FixedCache(cached or ints()))]


def request(id: int, length: int, overtaken: int = 0) -> WaitingRequest:
    """Its tokens count up from ``1000 * id``."""
    return WaitingRequest(id, ints(range(1000 * id, 1000 * id + length)), overtaken=overtaken)


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_shortest_first") == []


class TestContract(PolicyContract):
    max_overtaken = BOUND

    def make(self) -> ShortestFirst:
        return make()


def test_the_shortest_goes_first_and_ties_by_arrival() -> None:
    assert order(request(0, 9), request(1, 2), request(2, 2)) == [1, 2, 0]


def test_what_is_cached_is_no_work() -> None:
    long = request(1, 100)
    assert order(request(0, 20), long, cached=long.tokens[:90]) == [1, 0]


def test_work_fades_with_what_later_arrivals_were_given() -> None:
    assert order(request(0, 100, overtaken=199), request(1, 50)) == [1, 0]
    assert order(request(0, 100, overtaken=201), request(1, 50)) == [0, 1]


def test_who_was_overtaken_to_the_bound_goes_first_however_long() -> None:
    assert order(request(0, 900, overtaken=BOUND), request(1, 1), request(2, 900, overtaken=BOUND)) == [0, 2, 1]
