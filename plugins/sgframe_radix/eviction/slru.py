"""Segmented LRU: what was hit again is protected from what was seen once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import TreeNode

PROTECTED_SHARE = 0.8
"""Of the unlocked tokens."""


class Segment:
    """Unlocked nodes in order of unlocking, and how many tokens they hold together."""

    def __init__(self) -> None:
        self.nodes: OrderedDict[TreeNode, None] = OrderedDict()
        self.tokens = 0

    def append(self, node: TreeNode) -> None:
        self.nodes[node] = None
        self.tokens += len(node.tokens)

    def remove(self, node: TreeNode) -> None:
        del self.nodes[node]
        self.tokens -= len(node.tokens)


class SLRU(EvictionStrategy):
    """Least recently used first, in two segments (Karedla et al. 1994).

    A new node is on probation and the first to go; a hit protects it. When more than ``PROTECTED_SHARE`` of the unlocked
    tokens are protected, the least recently used of them go back on probation. Whoever hits a node hits its ancestors, so
    none of them is less protected, and each segment keeps the order that ``LRU`` explains.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._probation = Segment()
        self._protected = Segment()

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        leaf.mark = self._probation

    def split(self, upper: TreeNode, lower: TreeNode) -> None:
        upper.mark = lower.mark
        if lower in lower.mark.nodes:
            lower.mark.tokens -= len(upper.tokens)

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if node in node.mark.nodes:
                node.mark.remove(node)
            node.mark = self._protected

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        for node in path:
            if not node.locks:
                node.mark.append(node)
        self._demote()

    def trimmed(self, leaf: TreeNode, count: int) -> None:
        leaf.mark.tokens -= count

    def removed(self, leaf: TreeNode) -> None:
        leaf.mark.remove(leaf)

    def victim(self) -> TreeNode:
        return next(iter(self._probation.nodes or self._protected.nodes))

    def known(self) -> Iterable[TreeNode]:
        return chain(self._probation.nodes, self._protected.nodes)

    def _demote(self) -> None:
        allowed = PROTECTED_SHARE * (self._protected.tokens + self._probation.tokens)
        while self._protected.tokens > allowed:
            node = next(iter(self._protected.nodes))
            self._protected.remove(node)
            node.mark = self._probation
            self._probation.append(node)
