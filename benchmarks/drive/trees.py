"""Prefix caches behind one face. Each call times the operation alone, without what leads up to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Protocol

from sgframe.clock import StepClock
from sgframe.interfaces.cache import Cache, Clock
from sgframe.messages import Ints
from sgframe_hash_chain import HashChainSettings
from sgframe_hash_chain.cache import HashChainCache
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

PEER = "SGLang"
"""Its Python tree, which ratios refer to."""


class Tree(Protocol):
    """A prefix cache of page size 1. Every method answers in seconds."""

    def match(self, tokens: Ints) -> float:
        """Find the longest cached prefix."""

    def insert(self, tokens: Ints, slots: Ints, covered: int) -> float:
        """Insert all of ``tokens``; the first ``covered`` were found cached before."""

    def lock(self, tokens: Ints) -> float:
        """Keep what is cached of ``tokens`` from eviction, and let it go again."""

    def evict(self, count: int) -> float:
        """Forget ``count`` tokens or a little more."""


class OurTree:
    """A match of ours locks what it finds. So ``lock`` is a match and a release, less a look at how far it goes."""

    def __init__(self, make: Callable[[Clock], Cache]) -> None:
        self._clock = StepClock()
        self._cache = make(self._clock)

    def match(self, tokens: Ints) -> float:
        self._clock.now += 0.01
        started = perf_counter()
        lease = self._cache.match_prefix(tokens)
        seconds = perf_counter() - started
        self._cache.release(lease)
        return seconds

    def insert(self, tokens: Ints, slots: Ints, covered: int) -> float:
        self._clock.now += 0.01
        lease = self._cache.match_prefix(tokens, limit=covered)
        started = perf_counter()
        self._cache.insert(lease, tokens, slots)
        seconds = perf_counter() - started
        self._cache.release(lease)
        return seconds

    def lock(self, tokens: Ints) -> float:
        started = perf_counter()
        self._cache.release(self._cache.match_prefix(tokens))
        between = perf_counter()
        self._cache.peek(tokens)
        return between - started - (perf_counter() - between)

    def evict(self, count: int) -> float:
        started = perf_counter()
        freed = self._cache.evict(count)
        seconds = perf_counter() - started
        assert len(freed) >= count
        return seconds


def our_trees(strategies: list[str], block: int) -> dict[str, Callable[[], Tree]]:
    """``radix`` with each of ``strategies``, and ``hash-chain``."""

    def radix(eviction: str) -> Callable[[], Tree]:
        settings = RadixSettings(eviction=eviction)
        return lambda: OurTree(lambda clock: RadixCache(settings, page_size=1, clock=clock))

    chained = HashChainSettings(block=block)
    return {
        **{f"radix {eviction}": radix(eviction) for eviction in strategies},
        f"chain {block}": lambda: OurTree(lambda clock: HashChainCache(chained, page_size=1, clock=clock)),
    }


def sglang_trees() -> dict[str, Callable[[], Tree]]:
    """SGLang's Python tree and its Rust core. Raises ImportError where it, or what it imports, is not installed."""
    with warnings.catch_warnings(action="ignore"):
        peer = import_module("drive.sglang_trees")
    return {PEER: peer.python_tree, "SGLang Rust": peer.rust_tree}


def find_tree(name: str, strategies: list[str], block: int) -> Tree:
    """A new one, by its name; SGLang is imported for its own only."""
    ours = our_trees(strategies, block)
    return (ours if name in ours else sglang_trees())[name]()
