"""The radix cache: leases over the radix tree, and the events that the eviction strategy, stamps and ghosts live on.

Owns which nodes are locked. It never sees a tensor or a request, and leaves to the strategy what is forgotten next.
"""

from __future__ import annotations

from itertools import islice
from zlib import crc32

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
    Stamp,
    Watched,
)
from sgframe.messages import Ints, Namespace, ints
from sgframe_radix import RadixSettings
from sgframe_radix.eviction import load_strategy
from sgframe_radix.eviction.guard import Guard
from sgframe_radix.ghosts import Ghosts
from sgframe_radix.invariants import check_tree
from sgframe_radix.stamps import Stamps
from sgframe_radix.tree import RadixTree, TreeNode


class RadixCache(Cache):
    """A prefix cache that shares every common run of whole pages (RadixAttention, Zheng et al. 2023).

    Eviction takes leaves only, in the order of ``settings.eviction``, and cuts a leaf's edge where enough is freed.
    """

    def __init__(self, settings: RadixSettings, *, page_size: int, clock: Clock) -> None:
        self._page = page_size
        self._telling = -(-NAMESPACE_TOKENS // page_size) * page_size
        self._clock = clock
        self._tree = RadixTree(page_size)
        self._strategy = Guard(settings.eviction, load_strategy(settings.eviction, clock), self._tree, clock)
        self._stamps = Stamps()
        self._ghosts = Ghosts(settings.ghost_tokens, page_size)
        self._tokens = 0
        self._locked_tokens = 0
        self._evicted_tokens = 0

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        """See CacheView. ``evicted`` as far back as the ghost list reaches; of other namespaces those that have begun last
        with the same page are looked at."""
        usable = self._usable(tokens, limit)
        node, matched = self._find(tokens, namespace, usable)
        if matched == len(tokens):
            return Peek(matched, "whole")
        if matched == usable:
            return Peek(matched, "limit" if usable < self._usable(tokens, None) else "page_floor")
        eviction = self._eviction(node, matched, tokens, namespace)
        if eviction is not None:
            by, at = eviction
            return Peek(matched, "evicted", by, self._clock() - at)
        end = matched + self._telling
        elsewhere = end <= usable and self._held_elsewhere(tokens, namespace, end)
        return Peek(matched, "namespace" if elsewhere else "never_seen")

    def watch(self, tokens: Ints, namespace: Namespace = ()) -> Watched:
        usable = self._usable(tokens, None)
        if not usable:
            return Watched(0, Stamp())
        node, matched = self._find(tokens, namespace, usable)
        if node is None or not node.end:
            return Watched(0, self._stamps.for_start(namespace, self._tree.key(tokens, 0)))
        if matched < node.end or matched == usable:
            return Watched(matched, self._stamps.for_edge(node))
        return Watched(matched, self._stamps.for_child(node, self._tree.key(tokens, matched)))

    def match_prefix(
        self, tokens: Ints, namespace: Namespace = (), limit: int | None = None, priority: int = 0
    ) -> Lease:
        lease = Lease(ints(), None, namespace, priority)
        root = self._tree.roots.get(namespace)
        if root is not None:
            node, matched = self._tree.walk(root, tokens, self._usable(tokens, limit))
            if matched:
                lease.anchor = node = node if matched == node.end else self._split(node, matched)
                lease.slots = self._lock(lease, node, root)
        return lease

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        _require_live(lease)
        start, end = len(lease.slots), self._usable(tokens, None)
        if end == start:
            return Insertion(end, lease.slots, ints())
        above = lease.anchor or self._tree.root(lease.namespace)
        node, matched = self._tree.walk(above, tokens, end)
        kept = slots[:end]
        if matched > start:
            lease.anchor = node = node if matched == node.end else self._split(node, matched)
            kept[start:matched] = self._lock(lease, node, above)
        lease.slots = kept
        if matched < end:
            self._grow(lease, node, tokens[matched:end], slots[matched:end])
        return Insertion(end, kept, slots[start:matched])

    def release(self, lease: Lease) -> None:
        _require_live(lease)
        lease.released = True
        if lease.anchor is None:
            return
        now = self._clock()
        path = []
        node: TreeNode = lease.anchor
        while node.end:
            node.locks -= 1
            node.used_at = now
            if not node.locks:
                self._locked_tokens -= len(node.tokens)
            path.append(node)
            node = node.parent
        self._strategy.released(path, lease)

    def evict(self, count: int) -> Ints:
        freed = self._forget(min(count, self._tokens - self._locked_tokens))
        self._evicted_tokens += len(freed)
        return freed

    def clear(self) -> Ints:
        return self._forget(self._tokens - self._locked_tokens, FLUSH)

    def stats(self) -> CacheStats:
        return CacheStats(self._tokens - self._locked_tokens, self._locked_tokens, self._evicted_tokens)

    def snapshot(self) -> Snapshot:
        now = self._clock()
        return Snapshot(tuple([_describe(node, now) for node in self._tree.nodes()]))

    def check(self) -> None:
        check_tree(self._tree, self._strategy.known(), self.stats())

    def _usable(self, tokens: Ints, limit: int | None) -> int:
        """How many leading tokens lie in whole pages below ``limit``."""
        length = len(tokens)
        if limit is not None and limit < length:
            length = limit
        return length - length % self._page

    def _find(self, tokens: Ints, namespace: Namespace, usable: int) -> tuple[TreeNode | None, int]:
        root = self._tree.roots.get(namespace)
        return (None, 0) if root is None else self._tree.walk(root, tokens, usable)

    def _split(self, node: TreeNode, end: int) -> TreeNode:
        """The upper part of ``node``, which ends at ``end``."""
        self._stamps.split(node)
        upper = self._tree.split(node, end)
        self._strategy.split(upper, node)
        return upper

    def _lock(self, lease: Lease, node: TreeNode, above: TreeNode) -> Ints:
        """Lock from ``node`` up to, not including, ``above``; return the slots of that stretch."""
        now = self._clock()
        path = []
        while node is not above:
            if not node.locks:
                self._locked_tokens += len(node.tokens)
            node.locks += 1
            node.hits += 1
            node.used_at = now
            path.append(node)
            node = node.parent
        slots = ints()
        for node in reversed(path):
            slots += node.slots
        self._strategy.leased(path, lease)
        return slots

    def _grow(self, lease: Lease, parent: TreeNode, tokens: Ints, slots: Ints) -> None:
        """Append a new leaf to the path of ``lease``."""
        leaf = lease.anchor = self._tree.attach(parent, tokens, slots)
        leaf.locks = 1
        leaf.used_at = self._clock()
        self._tokens += len(tokens)
        self._locked_tokens += len(tokens)
        self._stamps.attached(parent, self._tree.key(tokens, 0))
        returned, ghost = self._ghosts.revive(parent.namespace, parent.end, parent.crc, tokens)
        self._strategy.inserted(leaf, lease, returned, ghost)

    def _forget(self, count: int, by: str | None = None) -> Ints:
        """Cut leaves until ``count`` tokens are gone, for the strategy or ``by`` another; return their slots."""
        freed = ints()
        now = self._clock()
        while len(freed) < count:
            leaf = self._strategy.victim()
            freed += self._cut(leaf, count - len(freed), by or self._strategy.name, now)
        self._tokens -= len(freed)
        return freed

    def _cut(self, leaf: TreeNode, count: int, by: str, now: float) -> Ints:
        """Forget the last ``count`` tokens of ``leaf``, or all if there are no more; return their slots."""
        keep = max(0, len(leaf.tokens) - count)
        keep -= keep % self._page
        tokens, slots = self._tree.trim(leaf, keep)
        if leaf.stamps is not None:
            self._stamps.cut(leaf)
        if keep:
            before = leaf
            self._strategy.trimmed(leaf, len(tokens))
        else:
            before = leaf.parent
            self._strategy.removed(leaf)
        leaf.tail = self._ghosts.remember(leaf.namespace, before.end, before.crc, tokens, by, now, leaf.mark, leaf.tail)
        return slots

    def _eviction(
        self, node: TreeNode | None, matched: int, tokens: Ints, namespace: Namespace
    ) -> tuple[str, float] | None:
        """Who evicted what follows and when. ``node`` is where the walk along ``tokens`` ended after ``matched``."""
        crc = 0 if node is None else crc32(tokens[node.parent.end : matched], node.parent.crc)
        return self._ghosts.eviction(namespace, matched, crc, tokens[matched : matched + self._page])

    def _held_elsewhere(self, tokens: Ints, namespace: Namespace, end: int) -> bool:
        """Whether one of some other namespaces holds ``tokens[:end]``."""
        roots = reversed(self._tree.starts.get(self._tree.key(tokens, 0), {}))
        others = (root for root in roots if root.namespace != namespace)
        return any(self._tree.walk(root, tokens, end)[1] == end for root in islice(others, NAMESPACES_LOOKED_AT))


def _describe(node: TreeNode, now: float) -> Node:
    return Node(
        node.id,
        node.parent.id if node.parent.end else None,
        node.tokens.tobytes(),
        node.locks,
        node.hits,
        now - node.used_at,
        node.namespace,
    )


def _require_live(lease: Lease) -> None:
    if lease.released:
        raise ValueError("the lease was released before; a lease ends once and cannot be used afterwards")
