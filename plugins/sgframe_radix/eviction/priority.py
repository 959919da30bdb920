"""What only less urgent requests use goes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.queues import RankedQueues
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import TreeNode


class Priority(EvictionStrategy):
    """The lowest priority goes first; within one priority, the least recently used.

    A node's priority, its ``mark``, is the highest of all requests that used it.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._unlocked = RankedQueues()

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        leaf.mark = lease.priority

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if node.locks == 1:
                self._unlocked.discard(node.mark, node)
            node.mark = max(node.mark, lease.priority)

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if not node.locks:
                self._unlocked.append(node.mark, node)

    def removed(self, leaf: TreeNode) -> None:
        self._unlocked.discard(leaf.mark, leaf)

    def victim(self) -> TreeNode:
        return self._unlocked.first()

    def known(self) -> Iterable[TreeNode]:
        return self._unlocked
