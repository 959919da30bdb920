"""Unlocked nodes in queues by rank: what strategies with a rank of their own evict from."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator

from sgframe_radix.tree import TreeNode


class RankedQueues:
    """The lowest rank goes first; of one rank, what was unlocked longest ago.

    Give a parent no lower rank than its children: then the first is always a leaf, for within a queue every node stands
    before its parent (see ``LRU``). Each operation takes constant time, but for a binary search among the ranks in use.
    """

    def __init__(self) -> None:
        self._queues: dict[int, OrderedDict[TreeNode, None]] = {}
        self._ranks: list[int] = []

    def append(self, rank: int, node: TreeNode) -> None:
        queue = self._queues.get(rank)
        if queue is None:
            queue = self._queues[rank] = OrderedDict()
            insort(self._ranks, rank)
        queue[node] = None

    def discard(self, rank: int, node: TreeNode) -> None:
        """Take ``node`` out, if it is there, where ``append`` put it."""
        queue = self._queues.get(rank)
        if queue is None:
            return
        queue.pop(node, None)
        if not queue:
            del self._queues[rank]
            del self._ranks[bisect_left(self._ranks, rank)]

    def first(self) -> TreeNode:
        return next(iter(self._queues[self._ranks[0]]))

    def __iter__(self) -> Iterator[TreeNode]:
        return (node for rank in self._ranks for node in self._queues[rank])
