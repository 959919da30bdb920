"""Prefixes kept for programs: what a request computed stays leased after its end, until the program lets go of it.

Owns those leases. Each may be revoked at any time: what it kept then lies in the cache like anything else, and a program
that finds it gone computes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sgframe.interfaces.cache import Cache, Lease
from sgframe.scheduler.limits import LeaseLimits


class Kept(NamedTuple):
    lease: Lease
    since: float


class ProgramLeases:
    """By the program's number for each, the oldest first. The least recent goes when there are too many."""

    def __init__(self, cache: Cache, limits: LeaseLimits) -> None:
        self._cache = cache
        self._limits = limits
        self._expected: set[int] = set()
        """Numbers that open requests will keep something under."""
        self._kept: dict[int, Kept] = {}
        self.tokens = 0
        """Sum of the leases' lengths."""
        self.revoked = 0

    def __len__(self) -> int:
        return len(self._kept)

    def expect(self, number: int) -> None:
        """A request came that is to keep what it computes under ``number``."""
        self._expected.add(number)

    def settle(self, number: int, lease: Lease | None, now: float) -> bool:
        """The request that was to keep something under ``number`` has ended; whether ``lease`` is kept from now on.

        It is not when the program has let go of it meanwhile, nor when it is longer than all that may be kept.
        """
        wanted = number in self._expected
        self._expected.discard(number)
        if lease is None or not wanted or not lease or len(lease) > self._limits.tokens or not self._limits.count:
            return False
        while len(self._kept) >= self._limits.count or self.tokens + len(lease) > self._limits.tokens:
            self.revoke_oldest()
        self._kept[number] = Kept(lease, now)
        self.tokens += len(lease)
        return True

    def release(self, numbers: Iterable[int]) -> None:
        """The program wants these no more; unknown ones have been revoked, or never came to be."""
        for number in numbers:
            self._expected.discard(number)
            if number in self._kept:
                self._let_go(number)

    def revoke_oldest(self) -> bool:
        """Let go of the one that has been kept longest; False if there is none."""
        if not self._kept:
            return False
        self._let_go(next(iter(self._kept)))
        self.revoked += 1
        return True

    def revoke_all(self) -> None:
        """Let go of all that is kept."""
        while self.revoke_oldest():
            pass

    def expire(self, now: float) -> None:
        """Revoke those that have been kept for too long."""
        while self._kept and now - next(iter(self._kept.values())).since > self._limits.seconds:
            self.revoke_oldest()

    def _let_go(self, number: int) -> None:
        lease = self._kept.pop(number).lease
        self.tokens -= len(lease)
        self._cache.release(lease)
