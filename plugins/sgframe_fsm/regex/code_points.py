"""Sets of Unicode code points as sorted, disjoint, inclusive ranges.

Owns the set algebra. Knows neither regexes nor how a character is spelled in bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

CodePoints = tuple[tuple[int, int], ...]
"""Ascending ranges ``(first, last)``, both inclusive, with a gap between any two."""

LAST = 0x10FFFF
ANY: CodePoints = ((0, LAST),)
SURROGATES: CodePoints = ((0xD800, 0xDFFF),)


def code_points(ranges: Iterable[tuple[int, int]]) -> CodePoints:
    """The union of ``ranges``, which may overlap and stand in any order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def negated(points: CodePoints) -> CodePoints:
    """All code points, surrogates among them, but ``points``."""
    gaps, start = [], 0
    for first, last in points:
        if start < first:
            gaps.append((start, first - 1))
        start = last + 1
    return (*gaps, (start, LAST)) if start <= LAST else tuple(gaps)


def intersected(left: CodePoints, right: CodePoints) -> CodePoints:
    """What both sets have."""
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            common.append((first, last))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(common)


def contains(points: CodePoints, point: int) -> bool:
    """Whether ``point`` is one of ``points``."""
    at = bisect_right(points, (point, LAST)) - 1
    return at >= 0 and point <= points[at][1]
