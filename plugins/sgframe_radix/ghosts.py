"""What was evicted: token stretches without KV, so that a miss can be told from a first sight.

Knows paths by namespace, length and CRC-32 of their tokens; knows neither nodes nor slots. Two different paths of one
length share a CRC about once in 4 billion; then a miss is explained wrongly, and nothing else happens.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any
from zlib import crc32

from sgframe.messages import Ints, Namespace
from sgframe.prefixes import common_length

Path = tuple[Namespace, int, int]
"""Namespace, tokens before the stretch, CRC of the path through the stretch's first page."""


Parts = tuple[int, str, float, "Parts | None"]
"""What was evicted at one time: from its start to the end of the stretch so many tokens; by whom; when; the parts further
on, which went before. Within ``ONE_TIME`` seconds it counts as one time."""

Stretch = tuple[Ints, Parts, Any]
"""Tokens that followed each other, in the parts that they were evicted in, and the eviction strategy's mark of the last."""

ONE_TIME = 1.0


class Ghosts:
    """Evicted stretches of at most ``limit`` tokens together; beyond that the oldest are forgotten."""

    def __init__(self, limit: int, page_size: int) -> None:
        self._limit = limit
        self._page = page_size
        self._stretches: OrderedDict[Path, Stretch] = OrderedDict()
        self._tokens = 0

    def remember(
        self,
        namespace: Namespace,
        start: int,
        crc: int,
        tokens: Ints,
        by: str,
        now: float,
        mark: Any = None,
        tail: Path | None = None,
    ) -> Path:
        """``tokens`` were evicted ``by`` someone ``now``; before them on their path lie ``start`` tokens with CRC ``crc``.

        ``tail`` is the path that was returned when what follows them was evicted, if it was: the two become one stretch, so
        that a leaf which is eaten up bit by bit does not leave thousands behind.
        """
        path = namespace, start, crc32(tokens[: self._page], crc)
        parts: Parts = len(tokens), by, now, None
        if tail is not None and (further := self._forget(tail)):
            tokens = tokens + further[0]
            _, other, before, rest = further[1]
            mark = further[2]
            at_once = other == by and now - before < ONE_TIME
            parts = (len(tokens), by, before, rest) if at_once else (len(tokens), by, now, further[1])
        self._store(path, (tokens, parts, mark))
        return path

    def eviction(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> tuple[str, float] | None:
        """By whom and when the first page of ``tokens``, at that place, was evicted; None when it was not."""
        stretch = self._stretches.get(self._path(namespace, start, crc, tokens))
        return None if stretch is None else stretch[1][1:3]

    def revive(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> tuple[int, Any]:
        """``tokens`` are cached again; of the stretches they run through only what lies beyond stays evicted.

        Returns how many tokens at the beginning of ``tokens`` had been evicted, and the mark of the last of them.
        """
        at, mark = 0, None
        while at < len(tokens):
            stretch = self._forget(self._path(namespace, start + at, crc, tokens[at : at + self._page]))
            if stretch is None:
                break
            evicted, parts, mark = stretch
            again = tokens[at : at + len(evicted)]
            shared = common_length(evicted, again) // self._page * self._page
            crc = crc32(again[:shared], crc)
            at += shared
            if 0 < shared < len(evicted):
                beyond = evicted[shared:]
                self._store(self._path(namespace, start + at, crc, beyond), (beyond, _last(parts, len(beyond)), mark))
        return at, mark

    def _path(self, namespace: Namespace, start: int, crc: int, tokens: Ints) -> Path:
        return namespace, start, crc32(tokens[: self._page], crc)

    def _store(self, path: Path, stretch: Stretch) -> None:
        stretches = self._stretches
        if path in stretches:
            self._forget(path)
        stretches[path] = stretch
        self._tokens += len(stretch[0])
        while self._tokens > self._limit:
            self._tokens -= len(stretches.popitem(last=False)[1][0])

    def _forget(self, path: Path) -> Stretch | None:
        stretch = self._stretches.pop(path, None)
        if stretch is not None:
            self._tokens -= len(stretch[0])
        return stretch


def _last(parts: Parts, count: int) -> Parts:
    """The parts that the last ``count`` tokens of a stretch were evicted in."""
    _, by, when, further = parts
    while further is not None and further[0] >= count:
        _, by, when, further = further
    return count, by, when, further
