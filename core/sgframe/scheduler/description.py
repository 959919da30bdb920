"""What the scheduler tells of its prefix cache: the nodes that saved most computation, and no more than was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest

from sgframe.interfaces.cache import Node, Snapshot
from sgframe.messages import CacheDescribed, CacheDescription, CachedNode, DescribeCache, ints


def describe(question: DescribeCache, snapshot: Snapshot) -> CacheDescribed:
    """The answer to ``question``. O(cached tokens) for the snapshot, O(nodes × log(limit)) here."""
    nodes = snapshot.nodes
    sizes = _below(nodes, lambda node: len(node.tokens))
    reused = _below(nodes, lambda node: node.hits * len(node.tokens))
    # A parent's sums are never less than its children's: however many are taken, they are a tree.
    hottest = nsmallest(question.limit, nodes, key=lambda node: (-reused[node.id], -sizes[node.id]))
    return CacheDescribed(
        question.id,
        CacheDescription(
            total_nodes=len(nodes),
            total_tokens=sum(len(node.tokens) for node in nodes),
            nodes=[_cached_node(node, reused[node.id], question.preview) for node in hottest],
        ),
    )


def _below(nodes: Sequence[Node], value: Callable[[Node], int]) -> dict[int, int]:
    """The sum of ``value`` over each node and all below it; ``nodes`` has parents before children."""
    sums = {node.id: value(node) for node in nodes}
    for node in reversed(nodes):
        if node.parent is not None:
            sums[node.parent] += sums[node.id]
    return sums


def _cached_node(node: Node, reused: int, preview: int) -> CachedNode:
    return CachedNode(
        id=node.id,
        parent=-1 if node.parent is None else node.parent,
        length=len(node.tokens),
        tokens=ints(node.tokens[:preview]),
        reused=reused,
        locks=node.locks,
        hits=node.hits,
        age=node.age,
        namespace=node.namespace,
    )
