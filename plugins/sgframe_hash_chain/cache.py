"""The hash-chain cache: leases, recency and eviction over a table of blocks.

Owns which blocks are cached, which are locked and in which order the others go. It never sees a tensor or a request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from math import ceil

from sgframe.errors import ConfigError
from sgframe.interfaces.cache import (
    FLUSH,
    NAMESPACE_TOKENS,
    NAMESPACES_LOOKED_AT,
    Cache,
    CacheStats,
    Clock,
    Insertion,
    Lease,
    Node,
    Peek,
    Snapshot,
    Watched,
)
from sgframe.messages import Ints, Namespace, ints
from sgframe_hash_chain import HashChainSettings
from sgframe_hash_chain.block import Block, Key, Place
from sgframe_hash_chain.ghosts import Ghosts
from sgframe_hash_chain.invariants import check_blocks, check_memories
from sgframe_hash_chain.watchers import Watchers

LOOKUPS = 1024
"""Blocks that a ``peek`` looks up in other namespaces at most: each takes as long as in the prompt's own."""


class HashChainCache(Cache):
    """A prefix cache of whole blocks in one hash table (as in vLLM: Kwon et al. 2023, automatic prefix caching).

    A block is looked up by its predecessor and its own tokens. The predecessor stands in the key by its number, not by a
    hash of its own, so a hit has compared every token of the prompt: colliding hashes cost time and nothing else, and
    the order of all answers is that of the calls, whatever the seed of Python's hash.

    Eviction takes the blocks that were unlocked longest ago. A release unlocks from the deep end up, and whoever locks a
    block locks what precedes it, so in order of unlocking every block stands before its predecessor: tails go first, and
    finding the next to go takes constant time.
    """

    def __init__(self, settings: HashChainSettings, *, page_size: int, clock: Clock) -> None:
        self._block = settings.block or page_size
        if self._block % page_size:
            raise ConfigError(
                f"plugin.hash-chain.block is {settings.block}, but the backend's pages hold {page_size} tokens and a "
                f"block is a whole number of pages; choose a multiple of {page_size}, or 0 for one page"
            )
        self._clock = clock
        self._blocks: dict[Key, Block] = {}
        self._unlocked: OrderedDict[Block, None] = OrderedDict()
        self._starts: dict[bytes, dict[Namespace, None]] = {}
        """The namespaces in which a prompt starts with this block, in order of arrival."""
        self._telling = ceil(NAMESPACE_TOKENS / self._block) * self._block
        self._ghosts = Ghosts(settings.ghost_tokens // self._block)
        self._watchers = Watchers()
        self._created = 0
        self._evicted_tokens = 0

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        """See CacheView. ``page_floor`` when less than a block of tokens remains; ``evicted`` as far back as the ghosts
        reach; of other namespaces those that have begun last with the same block are looked at, with ``LOOKUPS``."""
        usable = self._usable(tokens, limit)
        place, matched = self._end(self._walk(tokens, 0, usable, namespace), namespace)
        if matched == len(tokens):
            return Peek(matched, "whole")
        if matched == usable:
            return Peek(matched, "limit" if usable < self._usable(tokens, None) else "page_floor")
        missing = tokens[matched : matched + self._block].tobytes()
        eviction = self._ghosts.eviction((place, missing))
        if eviction is not None:
            by, at = eviction
            return Peek(matched, "evicted", by, self._clock() - at)
        end = matched + self._telling
        elsewhere = end <= usable and self._held_elsewhere(tokens, namespace, end)
        return Peek(matched, "namespace" if elsewhere else "never_seen")

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        usable = self._usable(tokens, None)
        place, matched = self._end(self._walk(tokens, 0, usable, namespace), namespace)
        missing = tokens[matched : min(matched + self._block, usable)].tobytes()
        return Watched(matched, self._watchers.stamp(place, missing))

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        found = self._walk(tokens, 0, self._usable(tokens, limit), namespace)
        return Lease(self._lock(found), found[-1] if found else None, namespace, priority)

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        _require_live(lease)
        start, end = len(lease.slots), self._usable(tokens, None)
        if end == start:
            return Insertion(end, lease.slots, ints())
        last: Block | None = lease.anchor
        found = self._walk(tokens, start, end, lease.namespace if last is None else last.number)
        matched = start + len(found) * self._block
        kept = slots[:end]
        kept[start:matched] = self._lock(found)
        if found:
            last = found[-1]
        if matched < end:
            last = self._grow(last, lease.namespace, tokens[matched:end], slots[matched:end])
        lease.anchor, lease.slots = last, kept
        return Insertion(end, kept, slots[start:matched])

    def release(self, lease: Lease) -> None:
        _require_live(lease)
        lease.released = True
        now = self._clock()
        block: Block | None = lease.anchor
        while block is not None:
            block.locks -= 1
            if not block.locks:
                block.released_at = now
                self._unlocked[block] = None
            block = block.parent

    def evict(self, count: int) -> Ints:
        freed = self._forget(min(ceil(count / self._block), len(self._unlocked)), "lru")
        self._evicted_tokens += len(freed)
        return freed

    def clear(self) -> Ints:
        return self._forget(len(self._unlocked), FLUSH)

    def stats(self) -> CacheStats:
        unlocked = len(self._unlocked)
        return CacheStats(self._block * unlocked, self._block * (len(self._blocks) - unlocked), self._evicted_tokens)

    def snapshot(self) -> Snapshot:
        now = self._clock()
        return Snapshot(tuple([_describe(block, now) for block in self._blocks.values()]))

    def check(self) -> None:
        check_blocks(self._blocks, tuple(self._unlocked), self._block)
        check_memories(self._blocks, self._starts, self._ghosts, self._watchers)

    def _usable(self, tokens: Ints, limit: int | None) -> int:
        length = len(tokens) if limit is None else min(len(tokens), limit)
        return length - length % self._block

    def _walk(self, tokens: Ints, start: int, end: int, place: Place) -> list[Block]:
        """The cached blocks along ``tokens[start:end]``, whole blocks, of which the first stands at ``place``."""
        find, size = self._blocks.get, self._block
        found = []
        for at in range(start, end, size):
            block = find((place, tokens[at : at + size].tobytes()))
            if block is None:
                break
            found.append(block)
            place = block.number
        return found

    def _end(self, found: list[Block], namespace: Namespace) -> tuple[Place, int]:
        """The place where a match of ``found`` ends, and its length in tokens."""
        return found[-1].number if found else namespace, len(found) * self._block

    def _lock(self, found: Iterable[Block]) -> Ints:
        """Lock blocks that were found; return their slots."""
        unlocked = self._unlocked
        for block in found:
            if not block.locks:
                del unlocked[block]
            block.locks += 1
            block.hits += 1
        return ints(b"".join([block.slots for block in found]))

    def _grow(self, parent: Block | None, namespace: Namespace, tokens: Ints, slots: Ints) -> Block | None:
        """New blocks after ``parent``, each with one lock on it; return the last."""
        for start in range(0, len(tokens), self._block):
            place: Place = namespace if parent is None else parent.number
            stretch = slice(start, start + self._block)
            parent = self._attach((place, tokens[stretch].tobytes()), parent, namespace, slots[stretch].tobytes())
        return parent

    def _attach(self, key: Key, parent: Block | None, namespace: Namespace, slots: bytes) -> Block:
        number = self._ghosts.revive(key)
        if number is None:
            number = self._created = self._created + 1
        if parent is None:
            self._starts.setdefault(key[1], {})[namespace] = None
        self._watchers.came(*key)
        block = self._blocks[key] = Block(number, key, parent, namespace, slots)
        return block

    def _forget(self, blocks: int, by: str) -> Ints:
        """Forget so many blocks, the next ones in order, on behalf of ``by``; return their slots."""
        now = self._clock()
        return ints(b"".join([self._forget_next(by, now).slots for _ in range(blocks)]))

    def _forget_next(self, by: str, now: float) -> Block:
        block, _ = self._unlocked.popitem(last=False)
        del self._blocks[block.key]
        if block.parent is None:
            self._forget_start(block.key[1], block.namespace)
        self._ghosts.remember(block.key, block.number, by, now)
        self._watchers.gone(block.number)
        return block

    def _forget_start(self, tokens: bytes, namespace: Namespace) -> None:
        namespaces = self._starts[tokens]
        del namespaces[namespace]
        if not namespaces:
            del self._starts[tokens]

    def _held_elsewhere(self, tokens: Ints, namespace: Namespace, end: int) -> bool:
        """Whether one of some other namespaces holds ``tokens[:end]``."""
        blocks = end // self._block
        namespaces = reversed(self._starts.get(tokens[: self._block].tobytes(), {}))
        others = (other for other in namespaces if other != namespace)
        looked_at = islice(others, min(NAMESPACES_LOOKED_AT, LOOKUPS // blocks))
        return any(len(self._walk(tokens, 0, end, other)) == blocks for other in looked_at)


def _describe(block: Block, now: float) -> Node:
    parent = block.parent
    return Node(
        block.number,
        None if parent is None else parent.number,
        block.key[1],
        block.locks,
        block.hits,
        0.0 if block.locks else now - block.released_at,
        block.namespace,
    )


def _require_live(lease: Lease) -> None:
    if lease.released:
        raise ValueError("the lease was released before; a lease ends once and cannot be used afterwards")
