"""The vocabulary as a trie over bytes, laid out depth first: a subtree is one stretch of nodes, and of tokens.

Knows nothing of grammars. Special and unused tokens have no bytes and are not in it, so no walk can allow them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32s: TypeAlias = NDArray[np.int32]

STEM = 8
"""Bytes by which it is looked up whether a token may begin with something, before it is searched for."""
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
        places: where in ``texts`` each text stands first.
        stems: the first STEM bytes of all longer texts.
        words: 32-bit words of a mask over the vocabulary.
        followers: by span, what ``after`` found.
    """

    nodes: Int32s
    ids: Int32s
    texts: list[bytes]
    places: dict[bytes, int]
    stems: frozenset[bytes]
    words: int
    followers: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return int(self.nodes[0, DEEPEST])

    def text(self, node: int) -> bytes:
        """The bytes that lead to ``node``, below or at which there is a token."""
        if not node:
            return b""
        depth = int(self.nodes[node, STEP]) >> 8
        return self.texts[int(self.nodes[node, FIRST])][:depth]

    def along(self, node: int, data: bytes) -> tuple[list[int], int | None]:
        """The tokens that ``data``, or what it begins with, leads to from ``node``; and the node where all of it ends, if
        there is one with others below."""
        before = self.text(node)
        whole = before + data
        at = bisect_left(self.texts, whole)
        shared = max((_common_length(text, whole) for text in self.texts[max(0, at - 1) : at + 1]), default=0)
        found: list[int] = []
        for length in range(len(before) + 1, shared + 1):
            text = whole[:length]
            place = self.places.get(text)
            if place is not None:
                found += self.ids[place : bisect_right(self.texts, text, place)].tolist()
        span = self.span(whole) if shared == len(whole) else None
        return found, span[0] if span is not None and span[1] > span[0] + 1 else None

    def span(self, prefix: bytes) -> tuple[int, int] | None:
        """The node of ``prefix`` and the end of its subtree; None where no token begins with it."""
        at = bisect_left(self.texts, prefix)
        if at == len(self.texts) or not self.texts[at].startswith(prefix):
            return None
        last = bisect_right(self.nodes[:, FIRST], at) - 1  # where the first token that begins so ends
        node = last - len(self.texts[at]) + len(prefix)  # from the prefix on, its nodes are its own and stand in a row
        return node, int(self.nodes[node, END])

    def after(self, prefix: bytes) -> tuple[int, int]:
        """Sets of bytes: those that follow ``prefix`` in tokens, and those of them that end one."""
        if len(prefix) >= STEM and prefix[:STEM] not in self.stems:
            return 0, 0
        span = self.span(prefix)
        if span is None:
            return 0, 0
        if span not in self.followers:
            self.followers[span] = self._after(*span)
        return self.followers[span]

    def _after(self, node: int, stop: int) -> tuple[int, int]:
        following = last = 0
        node += 1
        while node < stop:
            step, end, first, _ = self.nodes[node].tolist()
            following |= 1 << (step & 255)
            if self.nodes[node + 1, FIRST] > first:
                last |= 1 << (step & 255)
            node = end
        return following, last


def _common_length(left: bytes, right: bytes) -> int:
    """How many bytes both begin with."""
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    return next(place for place in range(length) if left[place] != right[place])


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
    places = dict(zip(reversed(texts), reversed(range(len(texts))), strict=True))
    stems = frozenset(text[:STEM] for text in texts if len(text) > STEM)
    return Trie(nodes, np.array(order, np.int32), texts, places, stems, -(-len(tokens) // 32))


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
