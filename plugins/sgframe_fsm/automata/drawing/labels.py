"""What is written on an edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from sgframe_fsm.automata.automaton import Label
from sgframe_fsm.expressions.partitions import ALL_BYTES, members_of

LONGEST = 32
"""Characters of a label; what is longer loses its middle."""
_VISIBLE = {" ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = frozenset("^-[]\\")


def text_of(label: Label) -> str:
    """Bytes that stand alone as UTF-8, sets in brackets as in a regular expression; blanks made visible."""
    pieces = []
    for single, sets in groupby(label, key=lambda members: members & (members - 1) == 0):
        if single:
            data = bytes(members.bit_length() - 1 for members in sets)
            pieces.append("".join(map(_visible, data.decode(errors="backslashreplace"))))
        else:
            pieces += map(_set, sets)
    text = "".join(pieces)
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}…{text[1 - half :]}"


def _set(members: int) -> str:
    if members == ALL_BYTES:
        return "any byte"
    inverse = ALL_BYTES & ~members
    ranges, inverse_ranges = _ranges(members), _ranges(inverse)
    return "[" + "".join(ranges) + "]" if len(ranges) <= len(inverse_ranges) else "[^" + "".join(inverse_ranges) + "]"


def _ranges(members: int) -> list[str]:
    return [_byte(first) if first == last else f"{_byte(first)}-{_byte(last)}" for first, last in _runs(members)]


def _runs(members: int) -> Iterator[tuple[int, int]]:
    numbered: Iterable[tuple[int, int]] = enumerate(members_of(members))
    for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
        values = [byte for _, byte in run]
        yield values[0], values[-1]


def _byte(byte: int) -> str:
    if byte >= 0x80:
        return f"\\x{byte:02x}"
    return ("\\" if chr(byte) in _SPECIAL else "") + _visible(chr(byte))


def _visible(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    return character if character.isprintable() else f"\\x{ord(character):02x}"
