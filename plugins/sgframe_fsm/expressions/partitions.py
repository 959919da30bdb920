"""Arithmetic of byte-set partitions: disjoint 256-bit sets, each with something attached. Knows no expressions' meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
Parts = Sequence[tuple[int, T]]

ALL_BYTES = (1 << 256) - 1
SINGLE = tuple(1 << byte for byte in range(256))
"""The set of byte b alone, for each b."""


def members_of(byte_set: int) -> Iterator[int]:
    """The bytes in a set, ascending."""
    while byte_set:
        lowest = byte_set & -byte_set
        yield lowest.bit_length() - 1
        byte_set ^= lowest


def completed(parts: Parts[T], other: T) -> list[tuple[int, T]]:
    """``parts``, and ``other`` for every byte that is in none of them."""
    rest = ALL_BYTES
    for members, _ in parts:
        rest ^= members
    return [*parts, (rest, other)] if rest else list(parts)


def product(left: Parts[T], right: Parts[T]) -> Iterator[tuple[int, T, T]]:
    """Where two partitions overlap, and what both say there."""
    for members, ours in left:
        rest = members
        for others, theirs in right:
            both = rest & others
            if both:
                yield both, ours, theirs
                rest ^= both
                if not rest:
                    break


def refined(partitions: Iterable[Parts[T]], spend: Callable[[int], None]) -> list[tuple[int, list[T]]]:
    """The coarsest partition in which every byte of a set has the same things attached in all of ``partitions``.

    Sets of one byte, which most are, are kept apart: a thousand of them cost a thousand steps and no more. ``spend`` is
    told of the others what they cost.
    """
    single: dict[int, list[T]] = {}
    wide: list[tuple[int, list[T]]] = []
    for parts in partitions:
        for members, attached in parts:
            if members & (members - 1):
                spend(sum(len(known) for _, known in wide) // 16)
                wide = _split(wide, members, attached)
            else:
                single.setdefault(members, []).append(attached)
    if not wide:
        return list(single.items())
    result = [(members, _wide_at(wide, members) + attached) for members, attached in single.items()]
    apart = 0
    for members in single:
        apart |= members
    return result + [(members & ~apart, attached) for members, attached in wide if members & ~apart]


def _split(classes: list[tuple[int, list[T]]], members: int, attached: T) -> list[tuple[int, list[T]]]:
    result = []
    for known, before in classes:
        both = known & members
        if both:
            result.append((both, [*before, attached]))
            members ^= both
        if known != both:
            result.append((known ^ both, before))
    if members:
        result.append((members, [attached]))
    return result


def _wide_at(wide: list[tuple[int, list[T]]], single: int) -> list[T]:
    for members, attached in wide:
        if members & single:
            return attached
    return []
