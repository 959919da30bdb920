"""What an eviction strategy is told and must answer. It sees the tree's nodes, and changes nothing of them but ``mark``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.tree import TreeNode


class EvictionStrategy(ABC):
    """Decides which leaf is forgotten next. Built as ``target(clock)``.

    A node is *evictable* when it has no children and no lease locks it; only then it may be named as ``victim``. A lease
    locks its whole path, so what hangs below an unlocked node is unlocked too, and a node becomes evictable by a
    ``released`` or when the last of its children is ``removed``. Every event comes once the tree and the locks show it.

    Of a node a strategy reads whatever it likes: ``tokens`` (their number, say), ``end`` (how deep), ``parent``,
    ``children``, ``locks``, ``hits``, ``used_at``; ``mark`` is its own. No answer may take time that grows with the number
    of nodes. It reads no clock but ``clock``, which is in seconds and stands still within a step, and draws no unseeded
    random numbers: the same events bring the same victims.

    One that raises, or names a victim that is not evictable, is dropped for good, and ``lru`` goes on in its place.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        """``leaf`` is new, locked by ``lease`` alone, which covers the path to its end.

        Its first ``returned`` tokens were evicted not long ago; ``ghost`` is the ``mark`` that the last of them had.
        Its parent is what the path goes on from: a root, a node that was found cached, or one that this lease inserted.
        """
        return

    def split(self, upper: TreeNode, lower: TreeNode) -> None:
        """``lower`` lost the first part of its edge to ``upper``, its new parent, which a lease is about to lock.

        ``upper`` has the locks, hits and ``used_at`` of ``lower``. Unless overridden, its mark too.
        """
        upper.mark = lower.mark

    @abstractmethod
    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        """``lease`` found ``path`` cached and locks it: at least one node, the deepest first, each the child of the next.

        Those whose ``locks`` are 1 now were unlocked before.
        """

    @abstractmethod
    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        """``lease`` ended and locks ``path`` no more: all nodes up to the root, at least one, the deepest first.

        Those whose ``locks`` are 0 now are unlocked.
        """

    def trimmed(self, leaf: TreeNode, count: int) -> None:
        """The last ``count`` tokens of ``leaf``, the victim, were evicted, and some are left: it stays evictable."""
        return

    @abstractmethod
    def removed(self, leaf: TreeNode) -> None:
        """All of ``leaf``, the victim, was evicted: it hangs on its ``parent`` no more, and still shows its tokens."""

    @abstractmethod
    def victim(self) -> TreeNode:
        """The evictable leaf to be cut next, from its end. Called only while there is one."""

    @abstractmethod
    def known(self) -> Iterable[TreeNode]:
        """Every evictable leaf once, in any order; inner nodes may be among them if they are unlocked. For tests."""
