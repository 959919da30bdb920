"""How characters stand inside a JSON string (RFC 8259, section 7).

Owns escapes. Knows nothing of which strings a schema allows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import NamedTuple

from sgframe_fsm.expressions.memoising import per_process
from sgframe_fsm.expressions.store import EMPTY, Expr, Store
from sgframe_fsm.regex.alphabet import Utf8
from sgframe_fsm.regex.code_points import ANY, SURROGATES, CodePoints, code_points, intersected, negated

_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CHARACTERS = negated(SURROGATES)
_RAW = intersected(negated(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))), _CHARACTERS)
_PRINTABLE = intersected(_RAW, ((0x20, 0x7E),))
_HEX = [1 << ord(digit) | 1 << ord(digit.upper()) for digit in "0123456789abcdef"]


class _Digit(NamedTuple):
    """The next ``bits`` bits of a number as one hexadecimal digit, counted from ``least``; ``before`` stands before it."""

    bits: int
    least: int = 0
    before: tuple[int, ...] = ()


_RUNS = re.compile(
    r"([ !#-.0-\[\]-~]+)|(.)", re.DOTALL
)  # printable ASCII without short escapes, or one other character
_NUMBER = re.compile(r"\\\\|\\u....")  # an escaped backslash begins no number
_SURROGATE = re.compile("[\ud800-\udfff]")
_BACKSLASH, _U = 1 << 0x5C, 1 << 0x75
_FOUR = (_Digit(4), _Digit(4), _Digit(4), _Digit(4))
_HIGH = (_Digit(2, 0x8, (_HEX[0xD],)), _Digit(4), _Digit(4))
_LOW = (_Digit(2, 0xC, (_BACKSLASH, _U, _HEX[0xD])), _Digit(4), _Digit(4))


class JsonCharacters:
    """The alphabet of the inside of a JSON string: raw UTF-8, short escapes, ``\\uXXXX`` and surrogate pairs.

    Every spelling of a character counts. Control characters are never raw; a lone surrogate is no character.

    Args:
        plain: printable ASCII is never ``\\uXXXX``, so most texts have one spelling, and less can follow.
    """

    def __init__(self, store: Store, *, plain: bool = False) -> None:
        self._store = store
        self.plain = plain

    @property
    def any_character(self) -> Expr:
        """One character."""
        return _any_character(self._store, self.plain)

    @property
    def anything(self) -> Expr:
        """Any string of characters."""
        return self._store.repeat(self.any_character, 0, None)

    def characters(self, ranges: Sequence[tuple[int, int]]) -> Expr:
        """One character out of ``ranges``, in any of its spellings."""
        points = code_points(ranges)
        return self.any_character if points == ANY else _characters(self._store, points, self.plain)

    def spellings(self, text: str) -> Expr:
        """All that stands for ``text``."""
        parts = []
        for run, character in _RUNS.findall(text):
            if self.plain and run:
                parts.append(self._store.literal(run.encode()))
            else:
                parts += [self.characters(((ord(one), ord(one)),)) for one in run or character]
        return self._store.sequence(parts)


@per_process
def _any_character(store: Store, plain: bool) -> Expr:
    return _characters(store, ANY, plain)


@per_process
def _characters(store: Store, points: CodePoints, plain: bool) -> Expr:
    points = intersected(points, _CHARACTERS)
    numbered = intersected(points, negated(_PRINTABLE)) if plain else points
    return store.union((_raw(store, intersected(points, _RAW)), _escaped(store, points, numbered)))


def _raw(store: Store, points: CodePoints) -> Expr:
    if points and points[-1][1] < 0x80:
        return store.byte_set(sum((2 << last) - (1 << first) for first, last in points))
    return Utf8(store).characters(points)


def _escaped(store: Store, points: CodePoints, numbered: CodePoints) -> Expr:
    """``points`` by their short escapes, and ``numbered`` by number."""
    short = store.byte_set(sum(1 << ord(escape) for character, escape in _SHORT.items() if _has(points, character)))
    basic = _hexadecimal(store, intersected(numbered, ((0, 0xFFFF),)), _FOUR)
    beyond = tuple((first - 0x10000, last - 0x10000) for first, last in intersected(numbered, ((0x10000, 0x10FFFF),)))
    number = store.union((basic, _hexadecimal(store, beyond, _HIGH + _LOW)))
    escape = store.union((short, store.sequence((store.byte_set(_U), number))))
    return store.sequence((store.byte_set(_BACKSLASH), escape))


def _hexadecimal(store: Store, points: CodePoints, digits: tuple[_Digit, ...]) -> Expr:
    """The numbers ``points``, written with ``digits``; equal tails are shared."""
    if not digits:
        return EMPTY
    digit, *rest = digits
    size = 1 << sum(later.bits for later in rest)
    groups: Mapping[CodePoints, list[int]]
    if points == ((0, (size << digit.bits) - 1),):
        groups = {((0, size - 1),): list(range(1 << digit.bits))}
    else:
        groups = _by_lead(points, size)
    parts = []
    for below, leads in groups.items():
        head = [store.byte_set(members) for members in (*digit.before, sum(_HEX[digit.least + lead] for lead in leads))]
        parts.append(store.sequence((*head, _hexadecimal(store, below, tuple(rest)))))
    return store.union(parts)


def _has(points: CodePoints, character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in points)


def _by_lead(points: CodePoints, size: int) -> dict[CodePoints, list[int]]:
    """The values of ``point // size``, grouped by which remainders they have."""
    below: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for first, last in points:
        for lead in range(first // size, last // size + 1):
            below[lead].append((max(first - lead * size, 0), min(last - lead * size, size - 1)))
    groups: defaultdict[CodePoints, list[int]] = defaultdict(list)
    for lead, ranges in below.items():
        groups[tuple(ranges)].append(lead)
    return groups


def spelling(store: Store, text: str) -> Expr:
    """``text`` as a JSON string, quotes included, with as few escapes as may be. Where there are characters beyond printable
    ASCII, all of those may also be numbered, in lower or in upper case: it is as good as one spelling, so it is forced."""
    raw, numbered = encode_basestring(text), encode_basestring_ascii(text)
    if raw == numbered:
        return store.literal(raw.encode())
    words = [numbered, _NUMBER.sub(lambda escape: escape[0][:2] + escape[0][2:].upper(), numbered)]
    if not _SURROGATE.search(raw):
        words.append(raw)
    return store.union(store.literal(word.encode()) for word in words)
