"""Strategies that order the evictable leaves alone, by any rank: for orders in which a parent may stand before its child."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from sgframe.interfaces.cache import Lease
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import TreeNode


class LeafStrategy(EvictionStrategy):
    """Tells its subclass which nodes become evictable, and which cease to be."""

    @abstractmethod
    def add(self, leaf: TreeNode) -> None:
        """``leaf`` is evictable from now on."""

    @abstractmethod
    def discard(self, leaf: TreeNode) -> None:
        """``leaf`` is not evictable any more, or never was."""

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        self.discard(path[0])

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        deepest = path[0]
        if not deepest.locks and not deepest.children:
            self.add(deepest)

    def removed(self, leaf: TreeNode) -> None:
        self.discard(leaf)
        parent = leaf.parent
        if not parent.locks and not parent.children and parent.end:  # a root ends at 0
            self.add(parent)


class LeafHeap:
    """Leaves by rank, the lowest first. A binary heap with lazy deletion: O(log n) amortised."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[int, TreeNode]] = {}
        self._heap: list[tuple[int, int]] = []

    def add(self, rank: int, leaf: TreeNode) -> None:
        """Take in ``leaf``, which is not in it."""
        self._ranks[leaf.id] = rank, leaf
        heappush(self._heap, (rank, leaf.id))
        if len(self._heap) > 2 * len(self._ranks) + 100:
            self._heap = [(rank, id) for id, (rank, _) in self._ranks.items()]
            heapify(self._heap)

    def discard(self, leaf: TreeNode) -> None:
        self._ranks.pop(leaf.id, None)

    def first(self) -> TreeNode:
        while True:
            rank, id = self._heap[0]
            current, leaf = self._ranks.get(id, (None, None))
            if leaf is not None and current == rank:
                return leaf
            heappop(self._heap)

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[TreeNode]:
        return (leaf for _, leaf in self._ranks.values())
