"""The policy dfs-weight: those who share a cached prefix run together, where most wait first, and nobody waits for ever."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe.messages import Ints, ints
from sgframe.prefixes import common_length
from sgframe.testing import PolicyContract, check_plugin
from sgframe.testing.queue import FixedCache, WaitingRequest
from sgframe_dfs_weight import DfsWeightSettings
from sgframe_dfs_weight.policy import HeaviestBranchFirst
from sgframe_dfs_weight.trie import Branch, PrefixTrie

A, B, A1, A2 = [1, 2, 3], [4, 5], [1, 2, 3, 10], [1, 2, 3, 20]
CACHE = FixedCache(*map(ints, (A1, A2, B)))


class TestHeaviestBranchFirst(PolicyContract):
    max_overtaken = 16384

    def make(self) -> HeaviestBranchFirst:
        return HeaviestBranchFirst(DfsWeightSettings())


class TestWithoutPatience(PolicyContract):
    max_overtaken = 0

    def make(self) -> HeaviestBranchFirst:
        return HeaviestBranchFirst(DfsWeightSettings(max_overtaken=0))


def order(*prefixes: list[int], overdue: int | None = None) -> list[int]:
    """The order, by place, of requests that start with ``prefixes`` and go on with something new."""
    policy = HeaviestBranchFirst(DfsWeightSettings(max_overtaken=400))
    waiting = [
        WaitingRequest(place, ints([*prefix, 999]), overtaken=400 if place == overdue else 0)
        for place, prefix in enumerate(prefixes)
    ]
    return [request.id for request in policy.order(waiting, CACHE)]


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_dfs_weight") == []


def test_the_prefix_that_most_wait_for_goes_first() -> None:
    assert order(A, B, B) == [1, 2, 0]


def test_branches_of_equal_weight_go_by_their_earliest_arrival() -> None:
    assert order(B, A, B, A) == [0, 2, 1, 3]


def test_siblings_run_together_before_the_next_branch() -> None:
    assert order(A1, B, A2, B, A1) == [0, 4, 2, 1, 3]


def test_who_shares_more_goes_before_who_stops_at_the_branching() -> None:
    assert order(A, A2, A1, A1) == [2, 3, 1, 0]


def test_those_with_nothing_cached_go_last_by_arrival() -> None:
    assert order([7], [8], B) == [2, 0, 1]


def test_the_overdue_go_first_and_weigh_nothing() -> None:
    assert order(B, A, B, overdue=0) == [0, 1, 2]


def test_namespaces_share_no_branch() -> None:
    class Anywhere(FixedCache):
        """Finds its prefixes in every namespace."""

        def peek(self, tokens, namespace=(), limit=None):  # type: ignore[no-untyped-def]
            return super().peek(tokens, (), limit)

    salted = [WaitingRequest(id, ints(B), (("salt", str(id)),)) for id in (0, 1)]
    plain = [WaitingRequest(id, ints(B)) for id in (2, 3)]
    policy = HeaviestBranchFirst(DfsWeightSettings())
    assert [request.id for request in policy.order(salted + plain, Anywhere(ints(B)))] == [2, 3, 0, 1]


@pytest.mark.parametrize("common", [0, 1, 2, 7, 8, 15, 16, 17])
def test_a_common_length_ends_at_the_first_difference(common: int) -> None:
    assert common_length(ints([1] * 17), ints([1] * common + [2] * (20 - common))) == common


_prefixes = st.lists(st.integers(0, 1), max_size=6).map(ints)
_holdings = st.lists(st.dictionaries(st.integers(0, 7), st.integers(0, 6)), min_size=1, max_size=8)


def shape(branch: Branch) -> tuple[object, ...]:
    children = sorted(branch.children.items())
    return branch.tokens, sorted(branch.members), [(key, shape(child)) for key, child in children]


@settings(deadline=None)
@given(st.lists(_prefixes, min_size=8, max_size=8), _holdings)
def test_the_trie_is_the_same_whatever_it_held_before(prompts: list[Ints], holdings: list[dict[int, int]]) -> None:
    kept = PrefixTrie()
    for lengths in holdings:
        waiting = [WaitingRequest(id, prompts[id]) for id in sorted(lengths)]
        matched = [min(lengths[request.id], len(request.tokens)) for request in waiting]
        fresh = PrefixTrie()
        for trie in (kept, fresh):
            trie.hold(waiting, matched)
        assert shape(kept.root) == shape(fresh.root)
        assert kept.walk() == fresh.walk()


def test_a_branch_that_parts_nobody_any_more_is_joined() -> None:
    trie = PrefixTrie()
    long, short = WaitingRequest(0, ints(range(8))), WaitingRequest(1, ints(range(8)))
    trie.hold([long, short], [8, 4])
    assert shape(trie.root)[2] == [(((), 0), (ints(range(4)), [1], [(((), 4), (ints(range(4, 8)), [0], []))]))]
    trie.hold([long], [8])
    assert shape(trie.root)[2] == [(((), 0), (ints(range(8)), [0], []))]
