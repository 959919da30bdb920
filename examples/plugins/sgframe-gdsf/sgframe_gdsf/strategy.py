"""What the tree forgets next. Knows its leaves, and what a token costs by its depth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.leaves import LeafHeap, LeafStrategy
from sgframe_radix.tree import TreeNode

ATTENTION_DEPTH = 32768
"""Tokens of context at which attention costs a token as much as all else: so it is in a model of 8 billion weights."""


class GDSF(LeafStrategy):
    """Greedy-Dual-Size with Frequency (Cherkasova 1998): the leaf of least worth goes first.

    A leaf's worth is how often it was used times what a token of it would cost to compute again, which is
    1 + depth / ATTENTION_DEPTH, in units of 1 / ATTENTION_DEPTH. To it is added what the leaf that was forgotten last was
    worth when this one was used last, its ``mark``: so newcomers overtake in time what is used no more.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._leaves = LeafHeap()
        self._forgotten = 0
        """The worth of what was forgotten last."""

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            node.mark = self._forgotten
        super().released(path, lease)

    def add(self, leaf: TreeNode) -> None:
        self._leaves.add(_worth(leaf), leaf)

    def discard(self, leaf: TreeNode) -> None:
        self._leaves.discard(leaf)

    def removed(self, leaf: TreeNode) -> None:
        self._forgotten = max(self._forgotten, _worth(leaf))
        super().removed(leaf)

    def victim(self) -> TreeNode:
        return self._leaves.first()

    def known(self) -> Iterable[TreeNode]:
        return self._leaves


def _worth(leaf: TreeNode) -> int:
    uses = leaf.hits + 1  # the insertion counts
    worth: int = leaf.mark + uses * (ATTENTION_DEPTH + leaf.end)
    return worth
