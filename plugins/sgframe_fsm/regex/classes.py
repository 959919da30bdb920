"""Sets of characters by name: ``\\d \\w \\s``, Unicode properties, and the characters that differ only in case.

Owns what ECMA-262 says of them. Properties are those of the ``regex`` package, which carries the Unicode data.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import cache, lru_cache

import regex

from sgframe_fsm.regex.code_points import LAST, CodePoints, code_points, contains, negated
from sgframe_fsm.regex.syntax import LINE_ENDS

DIGIT: CodePoints = ((0x30, 0x39),)
WORD = code_points([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
_SPACES = ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F))
SPACE = code_points([*_SPACES, (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF), *LINE_ENDS])

CLASSES: dict[str, CodePoints] = {
    "d": DIGIT,
    "D": negated(DIGIT),
    "w": WORD,
    "W": negated(WORD),
    "s": SPACE,
    "S": negated(SPACE),
}
"""ECMA-262's class escapes: digits and word characters are ASCII, whitespace is Unicode's and U+FEFF."""


@lru_cache(maxsize=256)
def property_points(name: str) -> CodePoints | None:
    r"""The characters of ``\p{name}``: a category, a binary property, or ``Script=…`` and the like; None if unknown."""
    try:
        runs = regex.compile(rf"\p{{{name}}}+", regex.V1)
    except regex.error:
        return None
    return tuple((run.start(), run.end() - 1) for run in runs.finditer(_every_character()))


@lru_cache(maxsize=1024)
def case_variants(points: CodePoints) -> CodePoints:
    """``points`` and every character that simple case folding (Unicode, CaseFolding.txt C and S) makes equal to one."""
    variants = list(points)
    for equal in _case_classes():
        if any(contains(points, point) for point in equal):
            variants += [(point, point) for point in equal]
    return code_points(variants)


@cache
def _every_character() -> str:
    return array("I", range(LAST + 1)).tobytes().decode("utf-32-le", "surrogatepass")


@cache
def _case_classes() -> tuple[tuple[int, ...], ...]:
    """The sets of two and more code points that fold to the same."""
    folded: defaultdict[str, list[int]] = defaultdict(list)
    for first, last in property_points("Cased") or ():
        for point in range(first, last + 1):
            folded[_fold(chr(point))].append(point)
    return tuple(tuple(points) for points in folded.values() if len(points) > 1)


def _fold(character: str) -> str:
    """Simple case folding: one character for one. Where the full one is longer, the simple one is the lower case."""
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return folded
    return character
