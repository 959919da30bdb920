"""What was evicted: token stretches without KV, so that a miss can be told from a first sight.

Knows paths by namespace, length and CRC-32 of their tokens; knows neither nodes nor slots. Two different paths of one
length share a CRC about once in 4 billion; then a miss is explained wrongly, and nothing else happens.
"""

from __future__ import annotations

from collections import OrderedDict
from zlib import crc32

from sgframe.messages import Ints, Namespace
from sgframe_radix.tree import shared_length

Path = tuple[Namespace, int, int]
"""Namespace, tokens before the stretch, CRC of the path through the stretch's first page."""


class Ghosts:
    """Evicted stretches of at most ``limit`` tokens together; beyond that the oldest are forgotten."""

    def __init__(self, limit: int, page_size: int) -> None:
        self._limit = limit
        self._page = page_size
        self._stretches: OrderedDict[Path, Ints] = OrderedDict()
        self._tokens = 0

    def remember(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> None:
        """``tokens`` were evicted; before them on their path lie ``start`` tokens with CRC ``crc``."""
        path = self._path(namespace, start, crc, tokens)
        self._forget(path)
        self._stretches[path] = tokens
        self._tokens += len(tokens)
        while self._tokens > self._limit:
            self._tokens -= len(self._stretches.popitem(last=False)[1])

    def has(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> bool:
        """Whether the first page of ``tokens``, at that place, was evicted."""
        return self._path(namespace, start, crc, tokens) in self._stretches

    def revive(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> None:
        """``tokens`` are cached again; of the stretches they run through only what lies beyond stays evicted."""
        at = 0
        while at < len(tokens):
            stretch = self._forget(self._path(namespace, start + at, crc, tokens[at : at + self._page]))
            if stretch is None:
                return
            rest = tokens[at : at + len(stretch)]
            shared = shared_length(stretch, rest) // self._page * self._page
            crc = crc32(rest[:shared], crc)
            at += shared
            if 0 < shared < len(stretch):
                self.remember(namespace, start + at, crc, stretch[shared:])

    def _path(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> Path:
        return namespace, start, crc32(tokens[: self._page], crc)

    def _forget(self, path: Path) -> Ints | None:
        stretch = self._stretches.pop(path, None)
        if stretch is not None:
            self._tokens -= len(stretch)
        return stretch
