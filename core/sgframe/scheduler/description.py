"""What the scheduler tells of its prefix cache: the nodes that saved most computation, and no more than was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest

from sgframe.interfaces.cache import Node, Snapshot
from sgframe.messages import CacheDescribed, CacheDescription, CachedNode, DescribeCache, ints

REUSED = 2**32
"""What a token reused weighs against a token cached: more than all that are."""


def describe(question: DescribeCache, snapshot: Snapshot) -> CacheDescribed:
    """The answer to ``question``. O(nodes); whoever is served meanwhile waits for it."""
    nodes = snapshot.nodes
    weights, total = _weigh(nodes)
    # A parent weighs more than its children: however many are taken, they are a tree.
    hottest = nlargest(question.limit, range(len(nodes)), key=weights.__getitem__)
    return CacheDescribed(
        question.id,
        CacheDescription(
            total_nodes=len(nodes),
            total_tokens=total % REUSED,
            nodes=[_cached_node(nodes[index], weights[index] // REUSED, question.preview) for index in hottest],
        ),
    )


def _weigh(nodes: Sequence[Node]) -> tuple[list[int], int]:
    """For each node, and for all together, the tokens reused thanks to it and those below it × REUSED, plus the tokens
    cached there; ``nodes`` has parents before children. One number, for this is most of the time spent on a large cache."""
    weights = {node.id: (node.hits * REUSED + 1) * (len(node.packed) // 4) for node in nodes}
    total = 0
    for node in reversed(nodes):
        if node.parent is None:
            total += weights[node.id]
        else:
            weights[node.parent] += weights[node.id]
    return list(weights.values()), total


def _cached_node(node: Node, reused: int, preview: int) -> CachedNode:
    return CachedNode(
        id=node.id,
        parent=-1 if node.parent is None else node.parent,
        length=len(node),
        tokens=ints(node.packed[: 4 * preview]),
        reused=reused,
        locks=node.locks,
        hits=node.hits,
        age=node.age,
        namespace=node.namespace,
    )
