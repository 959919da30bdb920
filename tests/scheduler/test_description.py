"""What is told of the prefix cache: the nodes that saved most, and no more than was asked for."""

from __future__ import annotations

from sgframe.interfaces.cache import Node, Snapshot
from sgframe.messages import CacheDescription, CachedNode, DescribeCache, ints
from sgframe.scheduler.description import describe

SALT = (("salt", "x"),)


def packed(*tokens: int) -> bytes:
    return ints(tokens).tobytes()


TREE = Snapshot(
    (
        Node(1, None, packed(1, 2, 3, 4), 0, 0, 5.0, SALT),
        Node(2, None, packed(*[5] * 7), 1, 3, 0.5),
        Node(3, 2, packed(6), 0, 1, 2.0),
        Node(4, 2, packed(*[7] * 14), 0, 2, 1.5),
    )
)
"""Computations saved: 3 × 7 + 1 × 1 + 2 × 14 = 50 by node 2 and those below it, 28 by node 4, 1 by node 3, 0 by node 1."""


def told(limit: int, preview: int = 0) -> CacheDescription:
    return describe(DescribeCache(8, limit, preview), TREE).description


def test_a_node_is_told_with_all_that_is_known_of_it() -> None:
    assert told(4, preview=9).nodes[2:] == [
        CachedNode(3, 2, 1, ints([6]), 1, 0, 1, 2.0, ()),
        CachedNode(1, -1, 4, ints([1, 2, 3, 4]), 0, 0, 0, 5.0, SALT),
    ]


def test_the_answer_bears_the_question_s_number() -> None:
    assert describe(DescribeCache(8, 1, 0), TREE).id == 8


def test_those_that_saved_most_come_first_and_parents_before_children() -> None:
    assert [(node.id, node.reused) for node in told(4).nodes] == [(2, 50), (4, 28), (3, 1), (1, 0)]


def test_a_limit_leaves_the_coldest_out_and_the_totals_as_they_are() -> None:
    description = told(2)
    assert [node.id for node in description.nodes] == [2, 4]
    assert (description.total_nodes, description.total_tokens) == (4, 26)


def test_of_each_node_as_many_tokens_are_told_as_were_asked_for() -> None:
    assert [len(node.tokens) for node in told(4, preview=3).nodes] == [3, 3, 1, 3]
    assert [node.length for node in told(4, preview=3).nodes] == [7, 14, 1, 4]


def test_the_answer_is_bounded_and_whole_however_deep_the_tree() -> None:
    chain = Snapshot(tuple(Node(i, i - 1 if i else None, packed(1), 0, 20_000 - i, 0.0) for i in range(20_000)))
    description = describe(DescribeCache(1, 1000, 1), chain).description
    assert [node.id for node in description.nodes] == list(range(1000))
    assert description.total_nodes == 20_000


def test_an_empty_cache_has_nothing_to_tell() -> None:
    assert describe(DescribeCache(1, 9, 9), Snapshot()).description == CacheDescription(0, 0, [])
