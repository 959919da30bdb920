"""The characters of a regex: plain ones, escapes, classes in brackets. Owns the place in the pattern and its errors.

Knows nothing of groups and quantifiers.
"""

from __future__ import annotations

import re

from sgframe_fsm.errors import InvalidRegex, UnsupportedRegex
from sgframe_fsm.regex.classes import CLASSES, property_points
from sgframe_fsm.regex.code_points import CodePoints, code_points, negated
from sgframe_fsm.regex.refusals import invalid, unsupported

_NAMED = CLASSES | {
    letter: ((ord(character), ord(character)),) for letter, character in zip("tnvfr", "\t\n\v\f\r", strict=True)
}
_PROPERTY = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*(?:=[A-Za-z0-9_]+)?)\}")
_HEX = {"x": re.compile(r"([0-9A-Fa-f]{2})"), "u": re.compile(r"([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]+)\}")}
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_ELSEWHERE = {
    "A": "write ^ for the start of the text",
    "Z": "write $ for the end of the text",
    "z": "write $ for the end of the text",
    "a": "write \\x07",
    "e": "write \\x1b",
    "h": "write [ \\t]",
    "R": "write \\r?\\n",
    "Q": "escape each character",
}
"""Escapes that other dialects have."""


class CharacterReader:
    """Reads ``pattern`` from ``at`` on."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def peek(self) -> str:
        """The next character, or "" at the end."""
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        """Step over ``text`` if it comes next."""
        if found := self.pattern.startswith(text, self.at):
            self.at += len(text)
        return found

    def invalid(self, problem: str, remedy: str, position: int) -> InvalidRegex:
        return invalid(self.pattern, position, problem, remedy)

    def unsupported(self, problem: str, remedy: str, position: int) -> UnsupportedRegex:
        return unsupported(self.pattern, position, problem, remedy)

    def character(self) -> CodePoints:
        """The set that the next character or escape stands for, outside brackets."""
        start = self.at
        if self.take("\\"):
            return self._escape(start)
        self.at += 1
        return _single(ord(self.pattern[start]))

    def bracket(self, start: int) -> tuple[CodePoints, bool]:
        """The members of a class whose ``[`` was at ``start``, and whether it is inverted."""
        inverted = self.take("^")
        members: list[tuple[int, int]] = []
        while not self.take("]"):
            members += self._range(start)
        return code_points(members), inverted

    def _range(self, start: int) -> CodePoints:
        """One member of a class, or a range of them."""
        position = self.at
        first = self._member(start)
        if self.peek() != "-" or self.pattern[self.at + 1 : self.at + 2] == "]":
            return first
        self.at += 1
        last = self._member(start)
        if not (_is_single(first) and _is_single(last)):
            return code_points((*first, *last, (0x2D, 0x2D)))  # a class escape makes no range: the - is itself
        if first[0][0] > last[0][0]:
            raise self.invalid("a range whose ends are out of order", "put the smaller one first", position)
        return ((first[0][0], last[0][0]),)

    def _member(self, start: int) -> CodePoints:
        if not self.peek():
            raise self.invalid("a class that is not closed", "add the missing ], or write \\[", start)
        if self.take("\\b"):
            return _single(0x08)
        return self.character()

    def _escape(self, start: int) -> CodePoints:
        """The set that an escape stands for whose backslash was at ``start``."""
        letter = self.peek()
        self.at += 1
        if not letter:
            raise self.invalid("a backslash with nothing after it", "write \\\\ for the character itself", start)
        if letter in _NAMED:
            return _NAMED[letter]
        if letter in _HEX:
            return _single(self._code_point(letter, start))
        if letter in "pP":
            return self._property(letter == "P", start)
        if letter == "c":
            return self._control(start)
        if letter.isdecimal() or letter == "k":
            return self._number(letter, start)
        if letter.isascii() and letter.isalpha():
            remedy = _ELSEWHERE.get(letter, f"write {letter} for the letter itself")
            raise self.invalid(f"the unknown escape \\{letter}", remedy, start)
        return _single(ord(letter))

    def _code_point(self, letter: str, start: int) -> int:
        """``\\xHH``, ``\\uHHHH``, two of these that are a surrogate pair, or ``\\u{…}``."""
        digits = _HEX[letter].match(self.pattern, self.at)
        if digits is None:
            wanted = "two hexadecimal digits" if letter == "x" else "four hexadecimal digits, or {…}"
            raise self.invalid(f"an incomplete escape \\{letter}", f"write {wanted} after it", start)
        self.at = digits.end()
        point = int(digits[digits.lastindex or 1], 16)
        if point > 0x10FFFF:
            raise self.invalid("a code point that does not exist", "the last one is \\u{10FFFF}", start)
        if 0xD800 <= point <= 0xDBFF and (low := _LOW_SURROGATE.match(self.pattern, self.at)) is not None:
            self.at = low.end()
            point = 0x10000 + ((point - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return point

    def _property(self, inverted: bool, start: int) -> CodePoints:
        name = _PROPERTY.match(self.pattern, self.at)
        if name is None:
            raise self.invalid("a property escape without a name", "write \\p{L}, \\p{Script=Greek} or the like", start)
        self.at = name.end()
        points = property_points(name[1])
        if points is None:
            remedy = "use a general category, a script or a binary property of Unicode"
            raise self.unsupported(f"the unknown property {name[1]!r}", remedy, start)
        return negated(points) if inverted else points

    def _control(self, start: int) -> CodePoints:
        letter = self.peek()
        if not (letter.isascii() and letter.isalpha()):
            raise self.invalid("an incomplete escape \\c", "write a letter after it", start)
        self.at += 1
        return _single(ord(letter) % 32)

    def _number(self, letter: str, start: int) -> CodePoints:
        """``\\0`` is NUL; any other number, and ``\\k``, refers back to a group."""
        if letter != "0":
            raise self.unsupported("a back-reference", "no automaton can honour it; write the group again", start)
        if self.peek().isdecimal():
            raise self.invalid("an octal escape", "write \\x and two hexadecimal digits", start)
        return _single(0)


def _single(point: int) -> CodePoints:
    return ((point, point),)


def _is_single(points: CodePoints) -> bool:
    return len(points) == 1 and points[0][0] == points[0][1]
