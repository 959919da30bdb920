"""The prefix cache as clients see it: its hottest nodes, salts as digests, text only where it is permitted.

Knows nothing of HTTP: the server makes a CachedTree and ``sgframe tree`` reads it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from sgframe.messages import CacheDescription, CachedNode, Namespace

MAX_TEXT = 80
"""Most characters of a node's text."""
PREVIEW = 4 * (MAX_TEXT + 1)
"""Tokens that MAX_TEXT characters and one more may take: four where each is one byte of a character."""
_DIGEST_BYTES = 4
_DIGEST_KEY = secrets.token_bytes(16)

Text = Callable[[Sequence[int]], str]


class TreeNode(msgspec.Struct, omit_defaults=True):
    """``tokens`` that follow the path of ``parent`` (absent at the top), and the requests that shared them.

    ``reused`` counts tokens that did not have to be computed again thanks to this node and those below it: the sum of
    hits × tokens. ``locks`` are running requests, ``age`` is in seconds since the last one began. ``namespace`` maps each
    tag to a digest of its value, which holds for one run of the server. ``text`` is how the node's tokens begin.
    """

    id: int
    tokens: int
    reused: int
    locks: int
    hits: int
    age: float
    parent: int | None = None
    namespace: dict[str, str] = {}
    text: str | None = None


class CachedTree(msgspec.Struct):
    """The nodes that saved most, ``reused`` falling, so that parents stand before their children; all of them unless
    ``truncated``. ``total_nodes`` and ``total_tokens`` count the whole cache."""

    cache: str
    total_nodes: int
    total_tokens: int
    truncated: bool
    nodes: list[TreeNode]


def cached_tree(cache: str, description: CacheDescription, text: Text | None) -> CachedTree:
    """``description`` of the part ``cache``. ``text`` makes text of each node's tokens, of which it has PREVIEW; None where
    it is not to be shown."""
    return CachedTree(
        cache=cache,
        total_nodes=description.total_nodes,
        total_tokens=description.total_tokens,
        truncated=description.total_nodes > len(description.nodes),
        nodes=[_tree_node(node, text) for node in description.nodes],
    )


def _tree_node(node: CachedNode, text: Text | None) -> TreeNode:
    return TreeNode(
        id=node.id,
        parent=node.parent if node.parent >= 0 else None,
        tokens=node.length,
        reused=node.reused,
        locks=node.locks,
        hits=node.hits,
        age=round(node.age, 3),
        namespace=_digests(node.namespace),
        text=None if text is None else _beginning(text(node.tokens)),
    )


def _beginning(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _digests(namespace: Namespace) -> dict[str, str]:
    """Keyed afresh in each process, so that a secret cannot be found by trying likely ones."""
    return {
        tag: blake2b(value.encode(), digest_size=_DIGEST_BYTES, key=_DIGEST_KEY).hexdigest() for tag, value in namespace
    }
