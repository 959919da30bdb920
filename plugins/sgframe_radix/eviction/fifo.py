"""First in, first out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.leaves import LeafHeap, LeafStrategy
from sgframe_radix.tree import TreeNode


class FIFO(LeafStrategy):
    """The leaf that was inserted first goes first, however often it was hit. ``node.mark`` counts insertions."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._leaves = LeafHeap()
        self._insertions = 0

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        self._insertions += 1
        leaf.mark = self._insertions

    def add(self, leaf: TreeNode) -> None:
        self._leaves.add(leaf.mark, leaf)

    def discard(self, leaf: TreeNode) -> None:
        self._leaves.discard(leaf)

    def victim(self) -> TreeNode:
        return self._leaves.first()

    def known(self) -> Iterable[TreeNode]:
        return self._leaves
