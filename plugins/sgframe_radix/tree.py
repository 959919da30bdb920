"""The radix tree over token ids: nodes, walking, splitting, growing, trimming (Morrison 1968, PATRICIA).

Owns the tree's shape. It knows pages, tokens and slots; of leases, eviction and who watches it only carries the marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

from sgframe.interfaces.cache import Stamp
from sgframe.messages import Ints, Namespace, ints
from sgframe.prefixes import common_length

PageKey = int | bytes
"""What tells a node's children apart: the first page of their edge (at page size 1 simply its token)."""

MILESTONE = 1024
"""Tokens that may be cut off a leaf before the CRC of all the rest is computed again."""


class TreeNode:
    """An edge's tokens and their KV slots. A root has neither and is its own parent.

    ``end``: length of the path from the root through this node; ``crc``: CRC-32 of that path's tokens; ``locks``: leases
    on this node or below; ``hits``: leases that found it cached; ``used_at``: when it was last leased or released;
    ``tree`` is the one that it hangs in, None of a root and of what was cut off; ``mark`` belongs to the eviction strategy,
    ``stamps`` to the stamps, ``tail`` to the ghosts.
    """

    __slots__ = (
        "children",
        "crc",
        "end",
        "hits",
        "id",
        "locks",
        "mark",
        "namespace",
        "parent",
        "slots",
        "stamps",
        "tail",
        "tokens",
        "tree",
        "used_at",
    )

    def __init__(
        self, tree: RadixTree | None, id: int, namespace: Namespace, parent: TreeNode | None, tokens: Ints, slots: Ints
    ) -> None:
        self.tree = tree
        self.id = id
        self.namespace = namespace
        self.parent: TreeNode = parent or self
        self.tokens = tokens
        self.slots = slots
        self.end: int = len(tokens) + (parent.end if parent else 0)
        self.crc: int = crc32(tokens, parent.crc if parent else 0)
        self.children: dict[PageKey, TreeNode] = {}
        self.locks = 0
        self.hits = 0
        self.used_at = 0.0
        self.mark: Any = None
        self.stamps: WeakValueDictionary[PageKey | None, Stamp] | None = None
        self.tail: Any = None


class RadixTree:
    """One root for each namespace that holds something; every edge is one or more whole pages."""

    __slots__ = ("_created", "_milestone", "page_size", "roots", "starts")

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.roots: dict[Namespace, TreeNode] = {}
        self.starts: dict[PageKey, dict[TreeNode, None]] = {}
        """The roots of which some path starts with this page, in order of arrival."""
        self._created = 0
        self._milestone: tuple[TreeNode | None, int, int] = None, 0, 0
        """Of the leaf that was trimmed last: so many tokens of its path have this CRC."""

    def key(self, tokens: Ints, at: int) -> PageKey:
        """The child key of the page that starts at ``at``."""
        return tokens[at] if self.page_size == 1 else tokens[at : at + self.page_size].tobytes()

    def root(self, namespace: Namespace) -> TreeNode:
        """The root of ``namespace``, made if there is none; the caller attaches something to it."""
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = self._node(namespace, None, ints(), ints())
        return root

    def walk(self, node: TreeNode, tokens: Ints, end: int) -> tuple[TreeNode, int]:
        """Follow ``tokens[node.end:end]`` down from ``node``; ``end`` is a whole number of pages.

        Returns the deepest node reached and how many tokens the path to there shares; fewer than the node's ``end`` when
        its edge is shared only in part.
        """
        page = self.page_size
        matched = node.end
        while matched < end:
            key = tokens[matched] if page == 1 else tokens[matched : matched + page].tobytes()
            child = node.children.get(key)
            if child is None:
                break
            stop = child.end
            if stop > end or tokens[matched:stop] != child.tokens:
                return child, matched + common_length(child.tokens, tokens[matched : min(stop, end)]) // page * page
            node, matched = child, stop
        return node, matched

    def attach(self, parent: TreeNode, tokens: Ints, slots: Ints) -> TreeNode:
        """A new leaf below ``parent``, none of whose children shares its first page."""
        key = self.key(tokens, 0)
        leaf = parent.children[key] = self._node(parent.namespace, parent, tokens, slots)
        if parent.parent is parent:
            self.starts.setdefault(key, {})[parent] = None
        return leaf

    def split(self, node: TreeNode, end: int) -> TreeNode:
        """Cut ``node``'s edge so that a new node above it ends at ``end``; return that one.

        ``node`` keeps being the deep end, so leases anchored at it stay true.
        """
        parent = node.parent
        cut = end - parent.end
        upper = self._node(node.namespace, parent, node.tokens[:cut], node.slots[:cut])
        upper.locks, upper.hits, upper.used_at = node.locks, node.hits, node.used_at
        parent.children[self.key(upper.tokens, 0)] = upper
        del node.tokens[:cut], node.slots[:cut]
        node.parent = upper
        upper.children[self.key(node.tokens, 0)] = node
        return upper

    def trim(self, leaf: TreeNode, keep: int) -> tuple[Ints, Ints]:
        """Cut all but the first ``keep`` tokens off ``leaf``, and the leaf itself if that is none.

        Returns the tokens and slots cut off.
        """
        if keep:
            cut = leaf.tokens[keep:], leaf.slots[keep:]
            del leaf.tokens[keep:], leaf.slots[keep:]
            leaf.end = leaf.parent.end + keep
            leaf.crc = self._crc(leaf)
            return cut
        parent = leaf.parent
        leaf.tree = None
        key = self.key(leaf.tokens, 0)
        del parent.children[key]
        if parent.parent is parent:
            self._forget_start(key, parent)
            if not parent.children:
                del self.roots[parent.namespace]
        return leaf.tokens, leaf.slots

    def nodes(self) -> Iterator[TreeNode]:
        """Every node that holds tokens, parents before children."""
        pending = [child for root in self.roots.values() for child in root.children.values()]
        while pending:
            node = pending.pop()
            yield node
            pending += node.children.values()

    def _node(self, namespace: Namespace, parent: TreeNode | None, tokens: Ints, slots: Ints) -> TreeNode:
        self._created += 1
        return TreeNode(self if parent else None, self._created, namespace, parent, tokens, slots)

    def _crc(self, leaf: TreeNode) -> int:
        """The CRC of the path through ``leaf``. A leaf is often cut token by token, so most of the work is done for many
        cuts at once."""
        start = leaf.parent.end
        node, at, crc = self._milestone
        if node is not leaf or not start <= at <= leaf.end:
            at = max(start, leaf.end - MILESTONE)
            crc = crc32(leaf.tokens[: at - start], leaf.parent.crc)
            self._milestone = leaf, at, crc
        return crc32(leaf.tokens[at - start :], crc)

    def _forget_start(self, key: PageKey, root: TreeNode) -> None:
        roots = self.starts[key]
        del roots[root]
        if not roots:
            del self.starts[key]
