"""Stamps of the radix cache: what makes a watched match ask again, and what leaves it alone."""

from __future__ import annotations

import pytest

from sgframe.clock import StepClock
from sgframe.interfaces.cache import Watched
from sgframe.messages import Namespace, ints
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

SALT: Namespace = (("salt", "x"),)


class Slots:
    """A radix cache that holds 1 2 3 4, and on request more; every token has a slot of its own."""

    def __init__(self, page_size: int = 1) -> None:
        self.cache = RadixCache(RadixSettings(), page_size=page_size, clock=StepClock())
        self._next = 0
        self.serve([1, 2, 3, 4])

    def serve(self, tokens: list[int], namespace: Namespace = ()) -> None:
        lease = self.cache.match_prefix(ints(tokens), namespace)
        own = range(self._next, self._next + len(tokens) - len(lease))
        self._next += len(own)
        self.cache.insert(lease, ints(tokens), lease.slots + ints(own))
        self.cache.release(lease)

    def watch(self, tokens: list[int], namespace: Namespace = ()) -> Watched:
        return self.cache.watch(ints(tokens), namespace)


@pytest.fixture
def slots() -> Slots:
    return Slots()


class TestMisses:
    def test_a_miss_is_left_alone_by_unrelated_prompts(self, slots: Slots) -> None:
        watched = slots.watch([7, 8])
        slots.serve([5, 6])
        slots.serve([7, 8], SALT)
        slots.cache.clear()
        assert watched.matched == 0
        assert watched.stamp.current

    def test_a_miss_turns_when_its_beginning_is_inserted(self, slots: Slots) -> None:
        watched = slots.watch([7, 8])
        slots.serve([7])
        assert not watched.stamp.current

    def test_a_miss_turns_when_its_namespace_appears_with_it(self, slots: Slots) -> None:
        watched, other = slots.watch([1, 2], SALT), slots.watch([5], SALT)
        slots.serve([1, 2], SALT)
        assert not watched.stamp.current
        assert other.stamp.current

    def test_a_miss_outlives_the_going_and_coming_of_its_namespace(self, slots: Slots) -> None:
        slots.serve([1], SALT)
        watched = slots.watch([5], SALT)
        slots.cache.clear()
        slots.serve([1], SALT)
        assert watched.stamp.current
        slots.serve([5], SALT)
        assert not watched.stamp.current

    def test_less_than_a_page_can_never_match(self) -> None:
        slots = Slots(page_size=2)
        watched = slots.watch([7])
        slots.serve([7, 8])
        slots.cache.clear()
        assert watched.matched == 0
        assert watched.stamp.current


class TestBelowANode:
    def test_another_child_leaves_it_alone(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 3, 4, 5])
        slots.serve([1, 2, 3, 4, 6])
        assert watched.matched == 4
        assert watched.stamp.current

    def test_its_own_child_turns_it(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 3, 4, 5])
        slots.serve([1, 2, 3, 4, 5, 6])
        assert not watched.stamp.current

    def test_a_split_further_up_leaves_it_alone(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 3, 4, 5])
        slots.serve([1, 2, 9])
        assert watched.stamp.current
        slots.serve([1, 2, 3, 4, 5])
        assert not watched.stamp.current

    def test_a_cut_of_the_node_turns_it(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 3, 4, 5])
        slots.cache.evict(1)
        assert not watched.stamp.current

    def test_the_eviction_of_a_sibling_leaves_it_alone(self, slots: Slots) -> None:
        slots.serve([1, 2, 3, 4, 6])
        watched = slots.watch([1, 2, 3, 4, 5])
        assert len(slots.cache.evict(1)) == 1
        assert watched.stamp.current


class TestInsideAnEdge:
    def test_a_branch_there_turns_it(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 9])
        slots.serve([1, 2, 9])
        assert watched.matched == 2
        assert not watched.stamp.current

    def test_what_grows_below_leaves_it_alone(self, slots: Slots) -> None:
        watched, whole = slots.watch([1, 2, 9]), slots.watch([1, 2, 3, 4])
        slots.serve([1, 2, 3, 4, 5])
        assert (watched.matched, whole.matched) == (2, 4)
        assert watched.stamp.current
        assert whole.stamp.current

    def test_the_eviction_of_the_edge_turns_it(self, slots: Slots) -> None:
        watched = slots.watch([1, 2, 9])
        slots.cache.clear()
        assert not watched.stamp.current


def test_those_who_stop_for_the_same_reason_share_a_stamp(slots: Slots) -> None:
    assert slots.watch([1, 2, 3, 4, 5, 6]).stamp is slots.watch([1, 2, 3, 4, 5, 7]).stamp
