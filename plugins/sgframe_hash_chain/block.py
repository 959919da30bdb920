"""A cached block: a fixed number of tokens after everything that precedes them, and where their KV lies."""

from __future__ import annotations

from sgframe.messages import Namespace

Place = int | Namespace
"""Where in which prompt: the number of the block that ends there, or the namespace at its very beginning."""

Key = tuple[Place, bytes]
"""A block's place and its tokens, as int32. As a dict's key it is hashed, and compared token by token on a hit."""


class Block:
    """``locks`` counts the leases that hold it, ``hits`` those that found it cached. ``released_at``: when the last lease
    that held it ended."""

    __slots__ = ("hits", "key", "locks", "namespace", "number", "parent", "released_at", "slots")

    def __init__(self, number: int, key: Key, parent: Block | None, namespace: Namespace, slots: bytes) -> None:
        self.number = number
        self.key = key
        self.parent = parent
        self.namespace = namespace
        self.slots = slots
        self.locks = 1
        self.hits = 0
        self.released_at = 0.0
