"""S3-FIFO: a small queue sifts out what is seen once, before it reaches the main one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.leaves import LeafHeap, LeafStrategy
from sgframe_radix.tree import TreeNode

SMALL_SHARE = 0.1
"""Of all tokens cached: while the small queue holds more, it gives the victims."""
MOST_USES = 3


@dataclass(slots=True)
class Place:
    """Where a node stands (its ``mark``): in which queue, at which rank, and its hits since it came there."""

    main: bool
    rank: int
    uses: int = 0


class S3FIFO(LeafStrategy):
    """Static FIFO queues, small and main, and ghosts (Yang et al., SOSP 2023), taken over to a tree.

    What is new goes to the small queue; what was evicted lately (the cache's ghosts) goes to the main one. At the head of
    the small queue a leaf that was hit more than once moves on to the main queue, any other is the victim; at the head of
    the main queue a leaf that was hit goes round again, one hit the less. Only leaves can be at the head. Whatever moves to
    the main queue takes its ancestors along, for they were hit as often.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._small = LeafHeap()
        self._main = LeafHeap()
        self._small_tokens = 0
        self._tokens = 0
        self._rank = 0

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        leaf.mark = Place(main=False, rank=self._next_rank())
        self._tokens += len(leaf.tokens)
        self._small_tokens += len(leaf.tokens)
        if returned:
            self._promote(leaf)

    def split(self, upper: TreeNode, lower: TreeNode) -> None:
        upper.mark = replace(lower.mark)

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        super().leased(path, lease)
        for node in path:
            node.mark.uses = min(node.mark.uses + 1, MOST_USES)

    def trimmed(self, leaf: TreeNode, count: int) -> None:
        self._tokens -= count
        if not leaf.mark.main:
            self._small_tokens -= count

    def removed(self, leaf: TreeNode) -> None:
        super().removed(leaf)
        self.trimmed(leaf, len(leaf.tokens))

    def add(self, leaf: TreeNode) -> None:
        self._queue(leaf).add(leaf.mark.rank, leaf)

    def discard(self, leaf: TreeNode) -> None:
        self._queue(leaf).discard(leaf)

    def victim(self) -> TreeNode:
        while True:
            if self._small and (self._small_tokens > SMALL_SHARE * self._tokens or not self._main):
                leaf = self._small.first()
                if leaf.mark.uses <= 1:
                    return leaf
                self._small.discard(leaf)
                self._promote(leaf)
            else:
                leaf = self._main.first()
                if not leaf.mark.uses:
                    return leaf
                self._main.discard(leaf)
                leaf.mark.uses -= 1
                leaf.mark.rank = self._next_rank()
            self.add(leaf)

    def known(self) -> Iterable[TreeNode]:
        return chain(self._small, self._main)

    def _promote(self, node: TreeNode) -> None:
        """Move ``node`` and its ancestors from the small queue to the end of the main one."""
        while node.end and not node.mark.main:
            node.mark = Place(main=True, rank=self._next_rank())
            self._small_tokens -= len(node.tokens)
            node = node.parent

    def _queue(self, node: TreeNode) -> LeafHeap:
        return self._main if node.mark.main else self._small

    def _next_rank(self) -> int:
        self._rank += 1
        return self._rank
