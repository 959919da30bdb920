"""The radix cache under the contract of its seam, once with every eviction strategy."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings

from sgframe.interfaces.cache import Clock
from sgframe.testing.cache import CacheContract
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache
from sgframe_radix.eviction.guard import Guard


class RadixContract(CacheContract):
    eviction: ClassVar[str]
    random_work = settings(CacheContract.random_work, max_examples=15)

    def make(self, page_size: int, clock: Clock) -> RadixCache:
        return RadixCache(RadixSettings(eviction=self.eviction), page_size=page_size, clock=clock)


class TestLRU(RadixContract):
    eviction = "lru"
    random_work = CacheContract.random_work


class TestLFU(RadixContract):
    eviction = "lfu"


class TestFIFO(RadixContract):
    eviction = "fifo"


class TestSLRU(RadixContract):
    eviction = "slru"


class TestS3FIFO(RadixContract):
    eviction = "s3fifo"


class TestPriority(RadixContract):
    eviction = "priority"


class TestAdaptive(RadixContract):
    eviction = "adaptive"


@pytest.fixture(autouse=True)
def no_mercy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy at fault fails its test; in service it would be replaced."""

    def fail(guard: Guard, fault: str, error: Exception | None = None) -> None:
        raise AssertionError(f"the strategy '{guard.name}' {fault}") from error

    monkeypatch.setattr(Guard, "_replace", fail)
