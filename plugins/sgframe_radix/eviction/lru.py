"""Least recently used first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import TreeNode


class LRU(EvictionStrategy):
    """What was unlocked longest ago goes first.

    A release unlocks from the deep end up, and whoever locks a node locks its ancestors. So in order of unlocking every
    node stands before its parent, the first is always a leaf, and every answer takes constant time.
    """

    def __init__(self, clock: Clock, unlocked: Iterable[TreeNode] = ()) -> None:
        """``unlocked`` are those that are so from the beginning, the first to go first."""
        super().__init__(clock)
        self._unlocked: OrderedDict[TreeNode, None] = OrderedDict.fromkeys(unlocked)

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if node.locks == 1:
                self._unlocked.pop(node, None)  # the upper half of a split was never in it

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if not node.locks:
                self._unlocked[node] = None

    def removed(self, leaf: TreeNode) -> None:
        del self._unlocked[leaf]

    def victim(self) -> TreeNode:
        return next(iter(self._unlocked))

    def known(self) -> Iterable[TreeNode]:
        return self._unlocked
