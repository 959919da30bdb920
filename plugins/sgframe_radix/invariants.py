"""What must hold of the tree at every moment; run by tests at each step and in service when idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from sgframe.interfaces.cache import CacheStats
from sgframe_radix.tree import RadixTree, TreeNode


def check_tree(tree: RadixTree, known: Iterable[TreeNode], stats: CacheStats) -> None:
    """Raise AssertionError with the first fault. ``known`` is what the eviction strategy may name as victim. O(tokens)."""
    nodes = list(tree.nodes())
    for node in nodes:
        _check_node(tree, node)
    _check_roots(tree)
    _check_known(nodes, list(known))
    slots = [slot for node in nodes for slot in node.slots]
    _require(len(set(slots)) == len(slots), "a slot stands in the tree twice")
    evictable = sum(len(node.tokens) for node in nodes if not node.locks)
    _require(evictable == stats.evictable, f"{evictable} tokens are evictable, {stats.evictable} are counted")
    locked = sum(len(node.tokens) for node in nodes if node.locks)
    _require(locked == stats.locked, f"{locked} tokens are locked, {stats.locked} are counted")


def _check_node(tree: RadixTree, node: TreeNode) -> None:
    name, parent = f"node {node.id}", node.parent
    length = len(node.tokens)
    _require(length > 0 and length % tree.page_size == 0, f"{name} holds {length} tokens, not whole pages")
    _require(len(node.slots) == length, f"{name} holds {length} tokens in {len(node.slots)} slots")
    _require(node.end == parent.end + length, f"{name} ends at {node.end}, its parent at {parent.end}")
    _require(node.crc == crc32(node.tokens, parent.crc), f"{name} has the checksum of another path")
    _require(node.tree is tree, f"{name} belongs to another tree, or to none")
    _require(node.namespace == parent.namespace, f"{name} lies in another namespace than its parent")
    _require(
        parent.children.get(tree.key(node.tokens, 0)) is node, f"{name} is not what its parent finds by its tokens"
    )
    below = sum(child.locks for child in node.children.values())
    _require(node.locks >= below, f"{name} has {node.locks} locks and {below} below it")


def _check_roots(tree: RadixTree) -> None:
    for namespace, root in tree.roots.items():
        _require(bool(root.children) and root.parent is root, f"the root of {namespace} is empty or has a parent")
    starts = {(key, root) for root in tree.roots.values() for key in root.children}
    remembered = [(key, root) for key, roots in tree.starts.items() for root in roots]
    _require(
        set(remembered) == starts and all(tree.starts.values()),
        "the first pages differ from those of the roots' children",
    )


def _check_known(nodes: Sequence[TreeNode], known: Sequence[TreeNode]) -> None:
    ids = [node.id for node in known]
    unlocked = {node.id: node for node in nodes if not node.locks}
    leaves = [id for id, node in unlocked.items() if not node.children]
    _require(len(set(ids)) == len(ids), "the eviction strategy knows a node twice")
    _require(set(ids) <= unlocked.keys(), "the eviction strategy knows a node that is locked or gone")
    _require(set(leaves) <= set(ids), "the eviction strategy does not know every evictable leaf")


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise AssertionError(fault)
