"""The radix tree over token ids: nodes, walking, splitting, growing, trimming (Morrison 1968, PATRICIA).

Owns the tree's shape. It knows pages, tokens and slots; of leases, eviction and who watches it only carries the marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary
from zlib import crc32

from sgframe.interfaces.cache import Stamp
from sgframe.messages import Ints, Namespace, ints

PageKey = int | bytes
"""What tells a node's children apart: the first page of their edge (at page size 1 simply its token)."""


class TreeNode:
    """An edge's tokens and their KV slots. A root has neither and is its own parent.

    ``end``: length of the path from the root through this node; ``crc``: CRC-32 of that path's tokens; ``locks``: leases
    on this node or below; ``hits``: leases that found it cached; ``used_at``: when it was last leased or released;
    ``mark`` belongs to the eviction strategy, ``stamps`` to the stamps, ``tail`` to the ghosts.
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
        "used_at",
    )

    def __init__(self, id: int, namespace: Namespace, parent: TreeNode | None, tokens: Ints, slots: Ints) -> None:
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

    __slots__ = ("_created", "page_size", "roots", "starts")

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.roots: dict[Namespace, TreeNode] = {}
        self.starts: Counter[PageKey] = Counter()
        """In how many namespaces some path starts with this page."""
        self._created = 0

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
                return child, matched + shared_length(child.tokens, tokens[matched : min(stop, end)]) // page * page
            node, matched = child, stop
        return node, matched

    def attach(self, parent: TreeNode, tokens: Ints, slots: Ints) -> TreeNode:
        """A new leaf below ``parent``, none of whose children shares its first page."""
        key = self.key(tokens, 0)
        leaf = parent.children[key] = self._node(parent.namespace, parent, tokens, slots)
        if parent.parent is parent:
            self.starts[key] += 1
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
            leaf.crc = crc32(leaf.tokens, leaf.parent.crc)
            return cut
        parent = leaf.parent
        key = self.key(leaf.tokens, 0)
        del parent.children[key]
        if parent.parent is parent:
            self._forget_start(key)
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
        return TreeNode(self._created, namespace, parent, tokens, slots)

    def _forget_start(self, key: PageKey) -> None:
        self.starts[key] -= 1
        if not self.starts[key]:
            del self.starts[key]


def shared_length(edge: Ints, tokens: Ints) -> int:
    """How many leading elements are equal; ``tokens`` is no longer than ``edge``. Bisects by whole-slice comparisons."""
    low, high = 0, len(tokens)
    if edge[:high] == tokens:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if edge[low:middle] == tokens[low:middle]:
            low = middle
        else:
            high = middle
    return low
