"""The hash-chain cache under the contract of its seam, with blocks of one page and of several."""

from __future__ import annotations

from sgframe.interfaces.cache import Clock
from sgframe.testing import CacheContract
from sgframe_hash_chain import HashChainSettings
from sgframe_hash_chain.cache import HashChainCache


class TestBlocksOfOnePage(CacheContract):
    def make(self, page_size: int, clock: Clock) -> HashChainCache:
        return HashChainCache(HashChainSettings(), page_size=page_size, clock=clock)


class TestBlocksOfThreePages(CacheContract):
    pages_per_block = 3

    def make(self, page_size: int, clock: Clock) -> HashChainCache:
        return HashChainCache(HashChainSettings(block=3 * page_size), page_size=page_size, clock=clock)
