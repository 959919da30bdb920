"""The radix cache under the contract of its seam."""

from __future__ import annotations

from sgframe.testing.cache import CacheContract
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache


class TestRadixCache(CacheContract):
    def make(self, page_size: int) -> RadixCache:
        return RadixCache(RadixSettings(), page_size=page_size)
