"""Eviction strategies of the radix cache: who goes, in which order. Every letter is a token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sgframe.clock import StepClock
from sgframe.errors import ConfigError
from sgframe.interfaces.cache import Lease
from sgframe.messages import ints
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache
from sgframe_radix.eviction import EvictionStrategy
from sgframe_radix.eviction.lru import LRU
from sgframe_radix.tree import TreeNode


class Served:
    """A cache that has served some prompts, one after the other; a slot's number tells its letter."""

    def __init__(self, eviction: str, *prompts: str) -> None:
        self.cache = RadixCache(RadixSettings(eviction=eviction), page_size=1, clock=StepClock())
        self._letters: list[str] = []
        self.serve(*prompts)

    def serve(self, *prompts: str, priority: int = 0) -> None:
        for prompt in prompts:
            self.cache.release(self.admit(prompt, priority))

    def admit(self, prompt: str, priority: int = 0) -> Lease:
        tokens = ints(map(ord, prompt))
        lease = self.cache.match_prefix(tokens, priority=priority)
        own = prompt[len(lease) :]
        first = len(self._letters)
        self._letters += own
        self.cache.insert(lease, tokens, lease.slots + ints(range(first, first + len(own))))
        return lease

    def evict(self, count: int = 1) -> str:
        """Evict ``count`` letters one by one."""
        evicted = ""
        for _ in range(count):
            evicted += "".join(self._letters[slot] for slot in self.cache.evict(1))
            self.cache.check()
        return evicted


class TestLRU:
    def test_what_was_released_longest_ago_goes_first(self) -> None:
        assert Served("lru", "a", "b", "c", "a").evict(3) == "bca"

    def test_tails_go_before_what_they_hang_on(self) -> None:
        assert Served("lru", "ab", "ac").evict(3) == "bca"

    def test_a_running_request_keeps_its_path(self) -> None:
        served = Served("lru")
        lease = served.admit("ab")
        served.serve("ac", "d")
        assert served.evict(4) == "cd"
        served.cache.release(lease)
        assert served.evict(2) == "ba"


class TestFIFO:
    def test_hits_do_not_count(self) -> None:
        assert Served("fifo", "a", "b", "c", "a").evict(3) == "abc"

    def test_a_parent_keeps_its_place_until_its_children_are_gone(self) -> None:
        assert Served("fifo", "ab", "ac", "d").evict(4) == "bcad"


class TestLFU:
    def test_the_fewest_hits_go_first(self) -> None:
        assert Served("lfu", "a", "a", "a", "b", "b", "c").evict(3) == "cba"

    def test_equal_ones_go_by_recency(self) -> None:
        assert Served("lfu", "a", "b", "a", "b", "c", "d").evict(4) == "cdab"

    def test_old_fame_fades(self) -> None:
        served = Served("lfu", "a", "a", "a")
        gone = ""
        for newcomer in "bcd":
            served.serve(newcomer)
            gone += served.evict()
        assert gone == "bca"


class TestSLRU:
    def test_what_was_hit_again_is_protected(self) -> None:
        assert Served("slru", "a", "b", "a", "b", "c", "d").evict(3) == "acd"  # two of two are more than the share

    def test_a_hit_protects_what_the_path_hangs_on(self) -> None:
        assert Served("slru", "ab", "ac", "d", "e").evict(5) == "bcdea"

    def test_four_fifths_are_protected_at_most(self) -> None:
        served = Served("slru", *"abcde")
        served.serve(*"abcde")
        served.serve("f")
        assert served.evict(6) == "afbcde"

    def test_counts_stay_true_when_a_protected_node_is_split_and_cut(self) -> None:
        served = Served("slru", "abcd", "x", "abcd", "abz")
        assert served.evict(2) == "xz"
        served.serve("y")
        assert served.evict(5) == "ydcba"


class TestS3FIFO:
    def test_what_is_seen_once_goes_before_what_was_hit_twice(self) -> None:
        assert Served("s3fifo", "a", "a", "a", "b").evict(2) == "ba"

    def test_one_hit_is_not_enough(self) -> None:
        assert Served("s3fifo", "a", "a", "b").evict(2) == "ab"

    def test_what_comes_back_after_its_eviction_goes_to_the_main_queue(self) -> None:
        served = Served("s3fifo", "a")
        served.evict()
        served.serve("a", "b")
        assert served.evict(2) == "ba"

    def test_what_is_hit_in_the_main_queue_goes_round_again(self) -> None:
        served = Served("s3fifo", "a", "b")
        served.evict(2)
        served.serve("a", "b", "a")
        assert served.evict(2) == "ba"

    def test_the_main_queue_gives_way_once_the_small_one_is_small(self) -> None:
        served = Served("s3fifo", "abcdefghi")
        served.evict(9)
        served.serve("abcdefghi", "x")
        assert served.evict(1) == "i"  # one of ten tokens in the small queue is not above its share

    def test_a_hot_path_moves_on_as_a_whole(self) -> None:
        served = Served("s3fifo", "pa", "pb", "pa", "pa")
        assert served.evict() == "b"
        served.serve("c")
        assert served.evict(3) == "cap"


class TestPriority:
    def test_the_least_urgent_goes_first_whatever_its_age(self) -> None:
        served = Served("priority")
        served.serve("a", priority=-1)
        served.serve("b", priority=2)
        served.serve("c", priority=1)
        served.serve("d", priority=-1)
        assert served.evict(4) == "adcb"

    def test_the_most_urgent_user_counts(self) -> None:
        served = Served("priority", "ab")
        served.serve("ac", priority=1)
        served.serve("ab", "d")
        assert served.evict(4) == "bdca"


Prompts = st.lists(st.text("ab", min_size=1, max_size=6), max_size=12)


def _by_last_use(served: list[str], path: str) -> tuple[int, int]:
    return max(at for at, prompt in enumerate(served) if prompt.startswith(path)), -len(path)


def _by_first_use(served: list[str], path: str) -> tuple[int, int]:
    return min(at for at, prompt in enumerate(served) if prompt.startswith(path)), -len(path)


@pytest.mark.parametrize(
    ("eviction", "order"), [("lru", _by_last_use), ("priority", _by_last_use), ("fifo", _by_first_use)]
)
@settings(deadline=None, derandomize=True)
@given(prompts=Prompts)
def test_all_goes_in_the_order_that_the_definition_gives(
    eviction: str, order: Callable[[list[str], str], tuple[int, int]], prompts: list[str]
) -> None:
    cached = {prompt[:end] for prompt in prompts for end in range(1, len(prompt) + 1)}
    due = ""
    while cached:
        leaves = [path for path in cached if not any(other.startswith(path) and other != path for other in cached)]
        victim = min(leaves, key=lambda path: order(prompts, path))
        cached.remove(victim)
        due += victim[-1]
    assert Served(eviction, *prompts).evict(len(due)) == due


class Newest(LRU):
    """What a third party might add: the most recently used leaf first."""

    def victim(self) -> TreeNode:
        return next(node for node in reversed(self._unlocked) if not node.children)


class ForgetsALeaf(LRU):
    def known(self) -> Iterable[TreeNode]:
        return list(self._unlocked)[1:]


class KnowsTheLeased(LRU):
    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        return


class TestChoice:
    def test_a_strategy_of_your_own_is_named_by_module_and_class(self) -> None:
        served = Served(f"{__name__}:Newest", "a", "b")
        assert served.evict() == "b"
        assert served.cache.peek(ints([ord("b")])).evicted_by == f"{__name__}:Newest"

    def test_an_unknown_strategy_is_refused_with_the_list(self) -> None:
        with pytest.raises(
            ValidationError, match=r"must be adaptive, fifo, lfu, lru, priority, s3fifo, slru or .*'s3fifo'"
        ) as found:
            RadixSettings(eviction="s3fif")
        assert found.value.error_count() == 1

    @pytest.mark.parametrize(
        ("target", "reason"),
        [
            ("no_such_module:Class", "cannot be imported: ModuleNotFoundError"),
            ("sgframe_radix:NoSuchClass", "cannot be imported: AttributeError"),
            ("sgframe_radix.cache:RadixCache", "must be a subclass of sgframe_radix.eviction.EvictionStrategy"),
            ("sgframe_radix.eviction:EvictionStrategy", "cannot be built: TypeError: Can't instantiate abstract class"),
        ],
    )
    def test_a_target_without_a_strategy_is_an_error_that_names_it(self, target: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=f"'{target}' {reason}"):
            Served(target)


class TestFaultyStrategies:
    @pytest.mark.parametrize(
        ("strategy", "fault"),
        [(ForgetsALeaf, "does not know every evictable leaf"), (KnowsTheLeased, "knows a node that is locked")],
    )
    def test_check_compares_what_it_knows_with_the_tree(self, strategy: type[EvictionStrategy], fault: str) -> None:
        served = Served(f"{__name__}:{strategy.__name__}", "a", "b")
        served.admit("b")
        with pytest.raises(AssertionError, match=fault):
            served.cache.check()
