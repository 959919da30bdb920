"""What all grammars of one vocabulary share within a process: trie, rows, walker, and a cache of what was walked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from sgframe_fsm.tokens.rows import RowTable
from sgframe_fsm.tokens.trie import build_trie
from sgframe_fsm.tokens.walking import make_walker

_ENTRY = 250
"""Bytes that an entry takes besides its value, roughly."""


class Cache:
    """Key → value up to a number of bytes; at the bound the least recently asked for are dropped."""

    def __init__(self, limit: int) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._limit = limit
        self.size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any:
        """None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """``size``: the bytes of ``value``, which is kept at least until the next one comes."""
        replaced = self._entries.pop(key, (None, 0))
        self._entries[key] = (value, size + _ENTRY)
        self.size += size + _ENTRY - replaced[1]
        while self.size > self._limit and len(self._entries) > 1:
            self.size -= self._entries.popitem(last=False)[1][1]


class Tables:
    """``row_bytes`` and ``mask_bytes`` bound the memory of automaton rows and of masks; ``kernels``: see make_walker."""

    def __init__(self, tokens: list[bytes], *, kernels: str, row_bytes: int, mask_bytes: int) -> None:
        self.trie = build_trie(tokens)
        self.rows = RowTable(row_bytes)
        self.walker = make_walker(kernels, self.trie, self.rows)
        self._mask_bytes = mask_bytes
        self.clear()

    def clear(self) -> None:
        """Forget all that was walked."""
        self.rows.clear()
        self.cache = Cache(self._mask_bytes)
