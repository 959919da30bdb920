"""Who owns which KV slot: the free pool, the cache, or a request. Every slot that changes hands does so here.

Some of what the cache owns is leased for programs (``program_leases``), which give way to whoever runs.

Knows nothing of steps, rows or order. Freeing at once is safe though a batch may be in flight: batches run in order, and
only a later one can write to what is freed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import Cache, Lease
from sgframe.messages import Ints, ints
from sgframe.scheduler.leases import ProgramLeases
from sgframe.scheduler.limits import LeaseLimits
from sgframe.scheduler.request import Request
from sgframe.scheduler.slots import SlotPool


class KvMemory:
    """``slots`` KV slots in pages of ``page_size``, shared between requests and ``cache``."""

    def __init__(self, slots: int, page_size: int, cache: Cache, leases: LeaseLimits | None = None) -> None:
        self.program_leases = ProgramLeases(cache, leases or LeaseLimits())
        self.pool = SlotPool(slots, page_size)
        self.cache = cache
        self._page = page_size
        self._least_eviction = self.pool.size // 512
        """Slots: a full pool is not to evict a few in every step."""

    @property
    def available(self) -> int:
        """Slots that can be had: free, or cached and evictable."""
        return self.pool.free + self.cache.stats().evictable

    def reclaim(self, count: int) -> int:
        """See to it that ``count`` slots can be had, at the expense of what is leased for programs; returns how many can."""
        while (available := self.available) < count and self.program_leases.revoke_oldest():
            pass
        return available

    def shortage(self, request: Request, count: int) -> int:
        """Slots that ``request`` lacks for its next ``count`` tokens, in whole pages."""
        return max(0, self.whole_pages(request.scheduled + count) - len(request.slots))

    def whole_pages(self, tokens: int) -> int:
        """``tokens`` rounded up to whole pages."""
        return -(-tokens // self._page) * self._page

    def room(self, request: Request, count: int) -> int:
        """How many of its next ``count`` tokens could be computed for ``request`` with all that can be had."""
        spare = len(request.slots) - request.scheduled
        return min(count, spare + self.reclaim(self.whole_pages(count - spare)) if count > spare else count)

    def grow(self, request: Request, count: int) -> None:
        """Give ``request`` what it lacks for its next ``count`` tokens; the caller has seen that it is available."""
        self.grow_all((request,), count)

    def grow_all(self, requests: Sequence[Request], count: int) -> None:
        """The same for ``count`` tokens of each of ``requests``."""
        page = self._page
        lacking = [
            (request.slots, -(-lack // page) * page)
            for request in requests
            if (lack := request.scheduled + count - len(request.slots)) > 0
        ]
        if not lacking:
            return
        total = sum([lack for _, lack in lacking])
        self._evict_for(total + len(lacking) * self.pool.ahead)
        if total == len(lacking):
            self.pool.extend_by_one([own for own, _ in lacking])
            return
        for own, lack in lacking:
            self.pool.extend(own, lack)

    def lease(self, request: Request) -> None:
        """Start ``request`` from what is cached of its tokens."""
        request.lease = self.cache.match_prefix(
            request.tokens, request.namespace, request.match_limit, request.priority
        )
        request.slots = request.lease.slots[:]
        request.matched = request.computed = request.scheduled = len(request.lease)

    def promise(self, request: Request) -> None:
        """Hand what is planned of a prompt to the cache before it is computed: others may start from it in the same step,
        for a step writes all KV of a layer before anyone reads it.

        Does nothing where the cache has come by more of the prompt from elsewhere.
        """
        assert request.lease is not None
        end = min(request.scheduled, request.prompt_len, request.shareable)
        held = len(request.lease)
        if end - held >= self._page:
            tokens = request.tokens[:end]
            if self.cache.peek(tokens, request.namespace).matched == held:
                self.cache.insert(request.lease, tokens, request.slots[:end])

    def share(self, request: Request) -> Ints | None:
        """Hand what is computed to the cache, so that others can start from it.

        Returns the slots from which ``request`` reads its first tokens from now on, None if they are the same as before.
        """
        assert request.lease is not None
        computed = min(request.computed, request.shareable)
        if computed - len(request.lease) < self._page:
            return None
        insertion = self.cache.insert(request.lease, request.tokens[:computed], request.slots[:computed])
        if not insertion.duplicates:
            return None
        if insertion.kept == len(request.slots):
            self.pool.leave(request.slots)  # it goes on from other slots
        self.pool.give_back(insertion.duplicates)
        request.slots[: insertion.kept] = insertion.slots
        return insertion.slots

    def retire(self, request: Request, now: float, *, keep: bool) -> None:
        """Take everything from ``request``, which has ended and may have had nothing; what it computed stays leased if its
        program wants that. ``keep`` as in ``give_back``."""
        lease = request.lease
        if lease is None:
            self.program_leases.settle(request.program_lease, None, now)
            return
        if keep:
            self.share(request)
        kept = self.program_leases.settle(request.program_lease, lease if keep else None, now)
        self._strip(request, lease, release=not kept)

    def give_back(self, request: Request, *, keep: bool) -> None:
        """Take everything from ``request``. With ``keep`` the computed KV stays cached; without, what is not shared yet is
        dropped as unfit."""
        assert request.lease is not None
        if keep:
            self.share(request)
        self._strip(request, request.lease, release=True)

    def _strip(self, request: Request, lease: Lease, *, release: bool) -> None:
        self.pool.leave(request.slots)
        self.pool.give_back(request.slots[len(lease) :])
        if release:
            self.cache.release(lease)
        request.lease, request.slots = None, ints()
        request.matched = request.computed = request.scheduled = request.promised = 0
        request.foreseen = False

    def flush(self) -> int:
        """Forget what is cached and not leased; returns how many tokens that were."""
        slots = self.cache.clear()
        self.pool.give_back(slots)
        return len(slots)

    def check(self, running: Sequence[Request]) -> None:
        """Raise AssertionError unless every slot has exactly one owner. O(slots + cached tokens): for tests."""
        self.pool.check()
        self.cache.check()
        self.balance(running)

    def balance(self, running: Sequence[Request]) -> None:
        """Raise AssertionError unless what is free, cached and owned adds up to all slots. O(slots of ``running``)."""
        cached = self.cache.stats()
        owned = 0
        for request in running:
            assert request.lease is not None
            shared = len(request.lease)
            assert request.slots[:shared] == request.lease.slots, f"request {request.id} lost its leased slots"
            owned += len(request.slots) - shared
        total = self.pool.free + cached.evictable + cached.locked + owned
        assert total == self.pool.size, (
            f"{self.pool.free} free + {cached.evictable} evictable + {cached.locked} locked + {owned} owned = {total}, "
            f"not {self.pool.size} slots"
        )

    def _evict_for(self, count: int) -> None:
        """See to it that ``count`` slots are loose, as far as that is to be had at the expense of what is cached."""
        if (shortage := count - self.pool.loose) > 0 and self.cache.stats().evictable:
            self.pool.give_back(self.cache.evict(max(shortage, self._least_eviction)))
