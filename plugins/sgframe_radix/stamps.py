"""Stamps: how those who watch a path learn that a match along it may end elsewhere now.

A match stops at a node or inside its edge, and only two things there can move that point: a new child that starts with the
very page that was missing, or a cut through the edge. So a stamp stands with the node, under the page that was missing, and
what happens on other paths leaves it alone. Stamps are held weakly; those who stopped for the same reason share one.
"""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakValueDictionary

from sgframe.interfaces.cache import Stamp
from sgframe.messages import Namespace
from sgframe_radix.tree import PageKey, TreeNode

Key = TypeVar("Key")


class Stamps:
    """The stamps given out for the nodes of one tree, and for paths of which nothing is cached."""

    def __init__(self) -> None:
        self._starts: WeakValueDictionary[tuple[Namespace, PageKey], Stamp] = WeakValueDictionary()
        """For first pages: a root may not be there yet, or go and come back."""

    def for_start(self, namespace: Namespace, page: PageKey) -> Stamp:
        """Current while nothing that starts with ``page`` is cached in ``namespace``."""
        return _shared(self._starts, (namespace, page))

    def for_child(self, node: TreeNode, page: PageKey) -> Stamp:
        """Current while all of ``node`` is cached and no child of it starts with ``page``."""
        return _shared(_own(node), page)

    def for_edge(self, node: TreeNode) -> Stamp:
        """Current while ``node`` is neither cut nor split."""
        return _shared(_own(node), None)

    def attached(self, parent: TreeNode, page: PageKey) -> None:
        """``parent`` has a new child that starts with ``page``."""
        if parent.stamps:
            _spoil(parent.stamps.pop(page, None))
        elif self._starts and parent is parent.parent:
            _spoil(self._starts.pop((parent.namespace, page), None))

    def split(self, node: TreeNode) -> None:
        """The first part of ``node``'s edge is another node's now."""
        if node.stamps:
            _spoil(node.stamps.pop(None, None))

    def cut(self, leaf: TreeNode) -> None:
        """Some or all of ``leaf`` was evicted."""
        if leaf.stamps:
            for stamp in leaf.stamps.values():
                stamp.current = False
        leaf.stamps = None


def _own(node: TreeNode) -> WeakValueDictionary[PageKey | None, Stamp]:
    if node.stamps is None:
        node.stamps = WeakValueDictionary()
    return node.stamps


def _shared(stamps: WeakValueDictionary[Key, Stamp], key: Key) -> Stamp:
    stamp = stamps.get(key)
    if stamp is None:
        stamp = stamps[key] = Stamp()
    return stamp


def _spoil(stamp: Stamp | None) -> None:
    if stamp is not None:
        stamp.current = False
