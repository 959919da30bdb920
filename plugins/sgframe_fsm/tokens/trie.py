"""The vocabulary as a trie over bytes, laid out depth first: a subtree is one stretch of nodes, and of tokens.

Knows nothing of grammars. Special and unused tokens have no bytes and are not in it, so no walk can allow them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32s: TypeAlias = NDArray[np.int32]

STEP, END, FIRST, DEEPEST = range(4)
"""The columns of ``Trie.nodes``."""


@dataclass(frozen=True, slots=True)
class Trie:
    """A byte trie; node 0 is the root.

    Attributes:
        nodes: ``[nodes + 1, 4]``, in preorder, the last row a sentinel. ``STEP``: the byte that leads to the node and,
            from bit 8 on, its depth in bytes. ``END``: the first node after its subtree. ``FIRST``: where the tokens of
            its subtree begin in ``ids``; its own reach to the next node's. ``DEEPEST``: bytes of the longest token in
            its subtree.
        ids: the tokens in the order of their nodes; those with equal bytes stand side by side.
        texts: the bytes of each of ``ids``; sorted.
        words: 32-bit words of a mask over the vocabulary.
    """

    nodes: Int32s
    ids: Int32s
    texts: list[bytes]
    words: int

    @property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return int(self.nodes[0, DEEPEST])

    def span(self, prefix: bytes) -> tuple[int, int] | None:
        """The node of ``prefix`` and the end of its subtree; None where no token begins with it."""
        at = bisect_left(self.texts, prefix)
        if at == len(self.texts) or not self.texts[at].startswith(prefix):
            return None
        last = bisect_right(self.nodes[:, FIRST], at) - 1  # where the first token that begins so ends
        node = last - len(self.texts[at]) + len(prefix)  # from the prefix on, its nodes are its own and stand in a row
        return node, int(self.nodes[node, END])

    def has_longer(self, prefix: bytes) -> bool:
        """Whether there is a token that begins with ``prefix`` and has more bytes."""
        at = bisect_right(self.texts, prefix)
        return at < len(self.texts) and self.texts[at].startswith(prefix)


def build_trie(tokens: Sequence[bytes]) -> Trie:
    """The trie of ``tokens``, token i being the bytes at index i."""
    order = sorted((token for token, text in enumerate(tokens) if text), key=tokens.__getitem__)
    texts = [tokens[token] for token in order]
    lengths = np.fromiter(map(len, texts), np.int32, len(texts))
    data = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum(lengths) - lengths
    shared = _shared_prefixes(data, starts, lengths)
    added = lengths - shared  # nodes that each text adds to those of the texts before it
    last = np.cumsum(added)  # and the node where it ends
    count = int(last[-1]) + 1 if texts else 1
    owner = np.repeat(np.arange(len(texts)), added)
    depth = np.zeros(count + 1, np.int32)
    depth[1:count] = shared[owner] + np.arange(1, count) - (last - added)[owner]
    nodes = np.zeros((count + 1, 4), np.int32)
    nodes[:, STEP] = depth << 8
    nodes[1:count, STEP] |= data[starts[owner] + depth[1:count] - 1]
    nodes[:, FIRST] = np.searchsorted(last, np.arange(count + 1), side="left")
    nodes[:count, END], nodes[:count, DEEPEST] = _subtrees(depth[:count])
    return Trie(nodes, np.array(order, np.int32), texts, -(-len(tokens) // 32))


def _shared_prefixes(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: Int32s) -> Int32s:
    """How many bytes each of the sorted texts shares with the one before it."""
    shared = np.zeros(len(lengths), np.int32)
    equal = np.arange(1, len(lengths))
    at = 0
    while equal.size:
        equal = equal[(lengths[equal - 1] > at) & (lengths[equal] > at)]
        equal = equal[data[starts[equal - 1] + at] == data[starts[equal] + at]]
        shared[equal] += 1
        at += 1
    return shared


def _subtrees(depth: Int32s) -> tuple[Int32s, Int32s]:
    """Where each node's subtree ends, and the greatest depth in it; from the leaves up."""
    end = np.arange(1, len(depth) + 1, dtype=np.int32)
    deepest = depth.copy()
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1])
    for above, level in zip(reversed(levels[:-1]), reversed(levels), strict=False):
        parents = above[np.searchsorted(above, level) - 1]
        end[parents] = end[level]  # of several children the last is written last, and ends last
        np.maximum.at(deepest, parents, deepest[level])
    return end, deepest
