"""An eviction strategy at fault costs itself its place and nobody the service: ``lru`` goes on. Every letter is a token."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

from sgframe.clock import StepClock
from sgframe.interfaces.cache import Clock, Lease
from sgframe.messages import ints
from sgframe.testing.cache import CacheContract
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache
from sgframe_radix.eviction.lru import LRU
from sgframe_radix.tree import TreeNode


class Served:
    """A cache that serves prompts one after the other, a second each, with the strategy of this module; a slot's number
    tells its letter."""

    def __init__(self, strategy: type[LRU]) -> None:
        self.clock = StepClock()
        name = f"{__name__}:{strategy.__name__}"
        self.cache = RadixCache(RadixSettings(eviction=name), page_size=1, clock=self.clock)
        self._letters = ""

    def serve(self, *prompts: str) -> None:
        for prompt in prompts:
            self.cache.release(self.admit(prompt))

    def admit(self, prompt: str) -> Lease:
        self.clock.now += 1
        tokens = ints(map(ord, prompt))
        lease = self.cache.match_prefix(tokens)
        own = prompt[len(lease) :]
        first = len(self._letters)
        self._letters += own
        self.cache.insert(lease, tokens, lease.slots + ints(range(first, first + len(own))))
        return lease

    def evict(self, count: int) -> str:
        """Evict ``count`` letters one by one."""
        return "".join(self._letters[slot] for _ in range(count) for slot in self.cache.evict(1))


def _boom(*_: Any) -> Any:
    raise KeyError("boom")


class OnInserted(LRU):
    inserted = _boom


class OnSplit(LRU):
    split = _boom


class OnLeased(LRU):
    leased = _boom


class OnReleased(LRU):
    released = _boom


class OnTrimmed(LRU):
    trimmed = _boom


class OnRemoved(LRU):
    removed = _boom


class OnVictim(LRU):
    victim = _boom


class NamesNothing(LRU):
    def victim(self) -> TreeNode:
        return cast("TreeNode", None)


class NamesAParent(LRU):
    def victim(self) -> TreeNode:
        return super().victim().parent


class NamesARoot(LRU):
    def victim(self) -> TreeNode:
        node = super().victim()
        while node.end:
            node = node.parent
        return node


class NamesTheLeased(LRU):
    """The last leaf that was inserted."""

    last: TreeNode

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        self.last = leaf

    def victim(self) -> TreeNode:
        return self.last


class NamesTheRemoved(LRU):
    """The same leaf again and again."""

    first: TreeNode | None = None

    def victim(self) -> TreeNode:
        self.first = self.first or super().victim()
        return self.first


class NamesAnothers(LRU):
    """A leaf of whatever tree was grown last."""

    last: list[TreeNode]

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        NamesAnothers.last = [leaf]

    def victim(self) -> TreeNode:
        return self.last[0]


RAISING = (OnInserted, OnSplit, OnLeased, OnReleased, OnTrimmed, OnRemoved, OnVictim)
MISNAMING = {
    NamesNothing: "None, which is no node",
    NamesAParent: "a node that has children",
    NamesARoot: "a node that is not cached",
    NamesTheLeased: "a node that is leased",
    NamesTheRemoved: "a node that is not cached",
}


@pytest.mark.parametrize("strategy", [*RAISING, *MISNAMING], ids=lambda strategy: strategy.__name__)
def test_the_least_recently_used_go_first_from_then_on(strategy: type[LRU]) -> None:
    served = Served(strategy)
    served.serve("pax", "pb", "cd", "pa")
    running = served.admit("q")
    assert served.evict(6) == "xbdcap"
    served.cache.check()
    served.cache.release(running)
    assert served.evict(1) == "q"
    served.cache.check()
    assert served.cache.peek(ints([ord("q")])).evicted_by == "lru"


@pytest.mark.parametrize("strategy", RAISING, ids=lambda strategy: strategy.__name__)
def test_the_log_says_once_what_was_raised_and_where(strategy: type[LRU], caplog: pytest.LogCaptureFixture) -> None:
    served = Served(strategy)
    served.serve("pax", "pb", "cd", "pa")
    served.evict(5)
    event = strategy.__name__.removeprefix("On").lower()
    (record,) = caplog.records
    assert record.message == (
        f"the eviction strategy '{__name__}:{strategy.__name__}' raised KeyError: 'boom' in '{event}'; "
        "the cache goes on with lru"
    )
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


@pytest.mark.parametrize(("strategy", "named"), MISNAMING.items(), ids=lambda case: getattr(case, "__name__", None))
def test_the_log_says_once_what_was_named(strategy: type[LRU], named: str, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(strategy)
    served.serve("pax", "pb", "cd", "pa")
    served.admit("q")
    served.evict(5)
    (record,) = caplog.records
    assert f"{strategy.__name__}' named as victim {named}; the cache goes on with lru" in record.message


def test_a_leaf_of_another_cache_is_no_victim() -> None:
    served, other = Served(NamesAnothers), Served(NamesAnothers)
    served.serve("a")
    other.serve("b")
    assert served.evict(1) == "a"
    assert other.cache.stats().evictable == 1
    for one in (served, other):
        one.cache.check()


def test_what_went_before_the_fault_went_by_the_strategy() -> None:
    served = Served(OnRemoved)
    served.serve("abc")
    served.evict(1)
    assert served.cache.peek(ints(map(ord, "abc"))).evicted_by == f"{__name__}:OnRemoved"
    served.evict(2)
    served.serve("d")
    served.evict(1)
    assert served.cache.peek(ints([ord("d")])).evicted_by == "lru"


class LateFault(LRU):
    """Works for a while, then at any event fails."""

    events = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)

    def _event(self) -> None:
        self.events += 1
        if self.events > 20:
            raise ZeroDivisionError

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        self._event()
        super().leased(path, lease)

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        self._event()
        super().released(path, lease)


class TestLateFault(CacheContract):
    """In the middle of anything."""

    def make(self, page_size: int, clock: Clock) -> RadixCache:
        return RadixCache(RadixSettings(eviction=f"{__name__}:LateFault"), page_size=page_size, clock=clock)
