"""The policy keeps sgframe's contract, and does what its name says."""

from __future__ import annotations

from sgframe_shortest_first import ShortestFirstSettings
from sgframe_shortest_first.policy import ShortestFirst

from sgframe.messages import ints
from sgframe.testing.plugin import check_plugin
from sgframe.testing.policy import FixedCache, PolicyContract, WaitingRequest


class TestContract(PolicyContract):
    def make(self) -> ShortestFirst:
        return ShortestFirst(ShortestFirstSettings(max_overtaken=400))

    def max_overtaken(self) -> int:
        return 400


def order(*requests: WaitingRequest) -> list[int]:
    policy = ShortestFirst(ShortestFirstSettings(max_overtaken=400))
    return [request.id for request in policy.order(requests, FixedCache())]


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_shortest_first") == []


def test_the_shortest_prompt_goes_first_and_ties_by_arrival() -> None:
    long, short, as_short = (WaitingRequest(id, ints(range(length))) for id, length in enumerate((9, 2, 2)))
    assert order(long, short, as_short) == [1, 2, 0]


def test_who_was_overtaken_too_far_goes_first() -> None:
    assert order(WaitingRequest(0, ints(range(9)), overtaken=400), WaitingRequest(1, ints([1]))) == [0, 1]
