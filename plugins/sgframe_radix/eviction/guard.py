"""Stands between the cache and a strategy, which may be a third party's: its faults end the strategy and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.lru import LRU
from sgframe_radix.eviction.strategy import EvictionStrategy
from sgframe_radix.tree import RadixTree, TreeNode

log = logging.getLogger(__name__)


class Guard(EvictionStrategy):
    """Hands everything on to ``strategy``, which ``name`` says. With its first fault ``LRU`` takes over for good.

    Every event comes once the tree and the locks show it, so the tree alone tells what the new strategy must know.
    """

    def __init__(self, name: str, strategy: EvictionStrategy, tree: RadixTree, clock: Clock) -> None:
        super().__init__(clock)
        self.name = name
        self._strategy = strategy
        self._tree = tree

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        try:
            self._strategy.inserted(leaf, lease, returned, ghost)
        except Exception as error:
            self._replace_raised("inserted", error)

    def split(self, upper: TreeNode, lower: TreeNode) -> None:
        try:
            self._strategy.split(upper, lower)
        except Exception as error:
            self._replace_raised("split", error)

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        try:
            self._strategy.leased(path, lease)
        except Exception as error:
            self._replace_raised("leased", error)

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        try:
            self._strategy.released(path, lease)
        except Exception as error:
            self._replace_raised("released", error)

    def trimmed(self, leaf: TreeNode, count: int) -> None:
        try:
            self._strategy.trimmed(leaf, count)
        except Exception as error:
            self._replace_raised("trimmed", error)

    def removed(self, leaf: TreeNode) -> None:
        try:
            self._strategy.removed(leaf)
        except Exception as error:
            self._replace_raised("removed", error)

    def victim(self) -> TreeNode:
        try:
            leaf = self._strategy.victim()
        except Exception as error:
            self._replace_raised("victim", error)
        else:
            if isinstance(leaf, TreeNode) and leaf.tree is self._tree and not leaf.locks and not leaf.children:
                return leaf
            self._replace(f"named as victim {_fault(leaf)}")
        return self._strategy.victim()

    def known(self) -> Iterable[TreeNode]:
        return self._strategy.known()

    def _replace_raised(self, event: str, error: Exception) -> None:
        self._replace(f"raised {type(error).__name__}: {error} in '{event}'", error)

    def _replace(self, fault: str, error: Exception | None = None) -> None:
        log.error("the eviction strategy '%s' %s; the cache goes on with lru", self.name, fault, exc_info=error)
        unlocked = [node for node in self._tree.nodes() if not node.locks]
        unlocked.sort(key=lambda node: (node.used_at, -node.end))  # children before parents
        self.name, self._strategy = "lru", LRU(self.clock, unlocked)


def _fault(leaf: object) -> str:
    """Why ``leaf`` is no victim."""
    if not isinstance(leaf, TreeNode):
        return f"{leaf!r}, which is no node"
    if leaf.tree is None:
        return "a node that is not cached"
    if leaf.children:
        return "a node that has children"
    return "a node that is leased" if leaf.locks else "a node of another tree"
