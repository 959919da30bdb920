"""Alphabets: how a character, a set of characters and any text of them are spelled in bytes.

Owns UTF-8. Knows neither regexes nor JSON: a JSON string has an alphabet of its own, with escapes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from sgframe_fsm.expressions.store import EMPTY, Expr, Store
from sgframe_fsm.regex.code_points import ANY, CodePoints, code_points, intersected


class Alphabet(Protocol):
    """How characters are spelled. A text may have several spellings; a spelling is of one text alone."""

    @property
    def anything(self) -> Expr:
        """Any string of characters, the empty one too."""

    def characters(self, ranges: Sequence[tuple[int, int]]) -> Expr:
        """One character out of ``ranges`` of code points, both ends inclusive; surrogates are no characters."""

    def spellings(self, text: str) -> Expr:
        """All that stands for ``text``."""


class Utf8:
    """Raw UTF-8 (RFC 3629): shortest forms only, no surrogates, nothing beyond U+10FFFF."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[tuple[int, int], ...], Expr] = {}
        self.anything = store.repeat(self.characters(ANY), 0, None)

    def characters(self, ranges: Sequence[tuple[int, int]]) -> Expr:
        """One character out of ``ranges``, as the smallest automaton: equal tails are shared."""
        key = tuple(ranges)
        if key not in self._known:
            self._known[key] = self._encode(code_points(ranges))
        return self._known[key]

    def spellings(self, text: str) -> Expr:
        """``text``, which has but one spelling here."""
        return self._store.literal(text.encode())

    def _encode(self, points: CodePoints) -> Expr:
        parts = []
        for block, lead, tails in _WIDTHS:
            within = intersected(points, block)
            parts.append(self._bytes(within, lead, tails))
        return self._store.union(parts)

    def _bytes(self, points: CodePoints, lead: int, tails: int) -> Expr:
        """One byte ``lead + (point >> 6 * tails)``, then ``tails`` continuation bytes for the rest of the point."""
        if not tails:
            return self._store.byte_set(sum(_bits(first + lead, last + lead) for first, last in points))
        whole, split = _by_first_byte(points, 6 * tails)
        followers: defaultdict[Expr, int] = defaultdict(int)  # what follows → the first bytes it follows
        if whole:
            followers[self._tail(((0, (1 << 6 * tails) - 1),), tails)] |= whole << lead
        for byte, below in split.items():
            followers[self._tail(tuple(below), tails)] |= 1 << byte + lead
        return self._store.union(
            self._store.sequence((self._store.byte_set(members), tail)) for tail, members in followers.items()
        )

    def _tail(self, points: CodePoints, tails: int) -> Expr:
        return self._bytes(points, 0x80, tails - 1) if tails else EMPTY


_WIDTHS: tuple[tuple[CodePoints, int, int], ...] = (
    (((0x00, 0x7F),), 0x00, 0),
    (((0x80, 0x7FF),), 0xC0, 1),
    (((0x800, 0xD7FF), (0xE000, 0xFFFF)), 0xE0, 2),
    (((0x10000, 0x10FFFF),), 0xF0, 3),
)
"""The code points of one encoded length, its lead byte's fixed bits, and how many continuation bytes follow."""


def _bits(first: int, last: int) -> int:
    """Bits ``first`` … ``last``."""
    return (2 << last) - (1 << first)


def _by_first_byte(points: CodePoints, shift: int) -> tuple[int, dict[int, list[tuple[int, int]]]]:
    """The values of ``point >> shift`` whose points are all there, as bits, and for the others which of theirs are."""
    whole, split, size = 0, defaultdict(list), 1 << shift
    for first, last in points:
        full_from, full_to = -(-first >> shift), (last + 1 >> shift) - 1
        for byte in {first >> shift, last >> shift}:
            start, end = max(first, byte * size), min(last, byte * size + size - 1)
            if end - start < size - 1:
                split[byte].append((start - byte * size, end - byte * size))
        if full_from <= full_to:
            whole |= _bits(full_from, full_to)
    return whole, {byte: sorted(below) for byte, below in split.items()}
