"""Least frequently used first, with ageing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.queues import RankedQueues
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import TreeNode


class LFU(EvictionStrategy):
    """The fewest uses go first, but old fame fades: LFU with dynamic ageing (LFU-DA, Arlitt et al. 2000).

    A node's rank, its ``mark``, is how often it was used plus the age of the cache when it was last unlocked. That age is
    the rank of what was removed last, so newcomers overtake in time whoever is used no more.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._unlocked = RankedQueues()
        self._age = 0

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if node.locks == 1:
                self._unlocked.discard(node.mark, node)

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if not node.locks:
                node.mark = self._age + node.hits + 1  # the insertion counts
                self._unlocked.append(node.mark, node)

    def removed(self, leaf: TreeNode) -> None:
        self._unlocked.discard(leaf.mark, leaf)
        self._age = leaf.mark

    def victim(self) -> TreeNode:
        return self._unlocked.first()

    def known(self) -> Iterable[TreeNode]:
        return self._unlocked
