"""The radix cache: leases, recency and eviction over the radix tree.

Owns which nodes are locked and in which order the others go. It never sees a tensor, a clock or a request.
"""

from __future__ import annotations

from collections import OrderedDict
from zlib import crc32

from sgframe.interfaces.cache import Cache, CacheStats, Insertion, Lease, Node, Peek, Snapshot
from sgframe.messages import Ints, Namespace, ints
from sgframe_radix import RadixSettings
from sgframe_radix.ghosts import Ghosts
from sgframe_radix.invariants import check_tree
from sgframe_radix.tree import RadixTree, TreeNode


class RadixCache(Cache):
    """A prefix cache that shares every common run of whole pages (RadixAttention, Zheng et al. 2023).

    Eviction takes the nodes that were unlocked longest ago, tails first, and cuts a leaf's edge where enough is freed.
    A release unlocks from the deep end up, and whoever locks a node locks its ancestors. So in order of unlocking every
    node stands before its parent, the first node is always a leaf, and finding the next to go takes constant time.
    """

    def __init__(self, settings: RadixSettings, *, page_size: int) -> None:
        self._page = page_size
        self._tree = RadixTree(page_size)
        self._ghosts = Ghosts(settings.ghost_tokens, page_size)
        self._unlocked: OrderedDict[TreeNode, None] = OrderedDict()
        self._tokens = 0
        self._locked_tokens = 0
        self._evicted_tokens = 0
        self._version = 0
        self._clock = 0

    @property
    def version(self) -> int:
        return self._version

    def peek(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Peek:
        """See CacheView. Reasons: ``page_floor`` when less than a page of tokens remains; ``namespace`` when nothing
        matched but another namespace holds the first page; ``evicted`` as far back as the ghost list reaches."""
        usable = self._usable(tokens, limit)
        root = self._tree.roots.get(namespace)
        node, matched = (None, 0) if root is None else self._tree.walk(root, tokens, usable)
        if matched == len(tokens):
            return Peek(matched, "whole")
        if matched == usable:
            return Peek(matched, "limit" if usable < self._usable(tokens, None) else "page_floor")
        if self._was_evicted(node, matched, tokens, namespace):
            return Peek(matched, "evicted")
        if matched == 0 and self._tree.key(tokens, 0) in self._tree.starts:
            return Peek(0, "namespace")
        return Peek(matched, "never_seen")

    def match_prefix(self, tokens: Ints, namespace: Namespace = (), limit: int | None = None) -> Lease:
        self._clock += 1
        root = self._tree.roots.get(namespace)
        if root is None:
            return Lease(ints(), None, namespace)
        node, matched = self._tree.walk(root, tokens, self._usable(tokens, limit))
        if node is root:
            return Lease(ints(), None, namespace)
        if matched < node.end:
            node = self._tree.split(node, matched)
        return Lease(self._lock(node, root), node, namespace)

    def insert(self, lease: Lease, tokens: Ints, slots: Ints) -> Insertion:
        _require_live(lease)
        start, end = len(lease.slots), self._usable(tokens, None)
        if end == start:
            return Insertion(end, lease.slots, ints())
        self._clock += 1
        above = lease.anchor or self._tree.root(lease.namespace)
        node, matched = self._tree.walk(above, tokens, end)
        if matched < node.end:
            node = self._tree.split(node, matched)
        kept = slots[:end]
        kept[start:matched] = self._lock(node, above)
        if matched < end:
            node = self._grow(node, tokens[matched:end], slots[matched:end])
        lease.anchor, lease.slots = node, kept
        return Insertion(end, kept, slots[start:matched])

    def release(self, lease: Lease) -> None:
        _require_live(lease)
        lease.released = True
        self._clock += 1
        node: TreeNode | None = lease.anchor
        while node is not None and node is not node.parent:
            node.locks -= 1
            node.used_at = self._clock
            if not node.locks:
                self._locked_tokens -= len(node.tokens)
                self._unlocked[node] = None
            node = node.parent

    def evict(self, count: int) -> Ints:
        freed = ints()
        while len(freed) < count and self._unlocked:
            leaf = next(iter(self._unlocked))
            keep = self._whole_pages(max(0, len(leaf.tokens) - (count - len(freed))))
            if not keep:
                del self._unlocked[leaf]
            tokens, slots = self._tree.trim(leaf, keep)
            before = leaf if keep else leaf.parent
            self._ghosts.remember(leaf.namespace, before.end, before.crc, tokens)
            freed += slots
        self._tokens -= len(freed)
        self._evicted_tokens += len(freed)
        self._version += bool(freed)
        return freed

    def stats(self) -> CacheStats:
        return CacheStats(self._tokens - self._locked_tokens, self._locked_tokens, self._evicted_tokens)

    def snapshot(self) -> Snapshot:
        return Snapshot(self._version, tuple(self._describe(node) for node in self._tree.nodes()))

    def check(self) -> None:
        check_tree(self._tree, tuple(self._unlocked), self.stats())

    def _usable(self, tokens: Ints, limit: int | None) -> int:
        length = len(tokens)
        return self._whole_pages(length if limit is None else min(length, limit))

    def _whole_pages(self, count: int) -> int:
        return count - count % self._page

    def _lock(self, node: TreeNode, above: TreeNode) -> Ints:
        """Lock from ``node`` up to, not including, ``above``; return the slots of that stretch."""
        parts = []
        while node is not above:
            if not node.locks:
                self._locked_tokens += len(node.tokens)
                self._unlocked.pop(node, None)  # the upper half of a split was never in it
            node.locks += 1
            node.hits += 1
            node.used_at = self._clock
            parts.append(node.slots)
            node = node.parent
        slots = ints()
        for part in reversed(parts):
            slots += part
        return slots

    def _grow(self, parent: TreeNode, tokens: Ints, slots: Ints) -> TreeNode:
        """A new leaf with one lock on it."""
        leaf = self._tree.attach(parent, tokens, slots)
        leaf.locks = 1
        leaf.used_at = self._clock
        self._tokens += len(tokens)
        self._locked_tokens += len(tokens)
        self._version += 1
        self._ghosts.revive(parent.namespace, parent.end, parent.crc, tokens)
        return leaf

    def _was_evicted(self, node: TreeNode | None, matched: int, tokens: Ints, namespace: Namespace) -> bool:
        """``node`` is where the walk along ``tokens`` ended after ``matched`` of them."""
        crc = 0 if node is None else crc32(tokens[node.parent.end : matched], node.parent.crc)
        return self._ghosts.has(namespace, matched, crc, tokens[matched : matched + self._page])

    def _describe(self, node: TreeNode) -> Node:
        top = node.parent is node.parent.parent
        return Node(
            id=node.id,
            parent=None if top else node.parent.id,
            tokens=tuple(node.tokens),
            locks=node.locks,
            hits=node.hits,
            age=self._clock - node.used_at,
            namespace=node.namespace,
        )


def _require_live(lease: Lease) -> None:
    if lease.released:
        raise ValueError("the lease was released before; a lease ends once and cannot be used afterwards")
