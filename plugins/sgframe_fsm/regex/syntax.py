"""The syntax tree of a regex, reduced to what decides which texts match: groups, greed and names are gone.

Every assertion is one of two: what the last character was (Behind), or what follows (Ahead).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from sgframe_fsm.regex.code_points import ANY, CodePoints, code_points, negated


@dataclass(frozen=True, eq=False)
class _Part:
    """Part of a regex.

    Attributes:
        nullable: whether it may match "", should its assertions hold.
        asserts: whether there is an assertion in it.
    """

    nullable: bool
    asserts: bool


@dataclass(frozen=True, eq=False)
class Chars(_Part):
    """One character out of ``points``."""

    points: CodePoints


@dataclass(frozen=True, eq=False)
class Sequence(_Part):
    """The ``parts`` one after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Alternation(_Part):
    """Any one of ``branches``."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Repeat(_Part):
    """``least`` to ``most`` times ``part``; without a bound when ``most`` is None. It stands at ``position``."""

    part: Node
    least: int
    most: int | None
    position: int


@dataclass(frozen=True, eq=False)
class Behind(_Part):
    """Nothing, where the character before is one of ``points``, or, with ``start``, there is none before."""

    points: CodePoints
    start: bool


@dataclass(frozen=True, eq=False)
class Ahead(_Part):
    """Nothing, where a match of ``part`` begins, or, unless it ``holds``, none does."""

    part: Node
    holds: bool


Node = Chars | Sequence | Alternation | Repeat | Behind | Ahead


def chars(points: CodePoints) -> Node:
    """One character out of ``points``."""
    return Chars(nullable=False, asserts=False, points=points)


def sequence(parts: Iterable[Node]) -> Node:
    """``parts`` in order; a run of them without assertions becomes one part, so that it is emitted in one piece."""
    runs: list[Node] = []
    for asserts, run in groupby(parts, lambda part: part.asserts):
        members = tuple(run)
        runs += members if asserts or len(members) == 1 else (_sequence(members),)
    return runs[0] if len(runs) == 1 else _sequence(tuple(runs))


def _sequence(parts: tuple[Node, ...]) -> Sequence:
    return Sequence(all(part.nullable for part in parts), any(part.asserts for part in parts), parts)


def alternation(branches: Iterable[Node]) -> Node:
    """Any of ``branches``; of none of them nothing."""
    branches = tuple(branches)
    if len(branches) == 1:
        return branches[0]
    return Alternation(any(part.nullable for part in branches), any(part.asserts for part in branches), branches)


def repeat(part: Node, least: int, most: int | None, position: int) -> Node:
    """``part`` again and again."""
    return Repeat(part.nullable or not least, part.asserts, part, least, most, position)


def behind(points: CodePoints, *, start: bool) -> Node:
    """A look-behind by one character."""
    return Behind(nullable=True, asserts=True, points=points, start=start)


def ahead(part: Node, *, holds: bool) -> Node:
    """A look-ahead. That a character does not follow is said without a negation: the end does, or another character."""
    part = trimmed(part, at_end=True)
    if isinstance(part, Chars) and not holds:
        return alternation((END, ahead(chars(negated(part.points)), holds=True)))
    return Ahead(nullable=True, asserts=True, part=part, holds=holds)


def trimmed(node: Node, *, at_end: bool) -> Node:
    """The least of ``node`` that matches the same texts when any text may follow (``at_end``), or else go before."""
    if node.nullable and not node.asserts:
        return EMPTY_TEXT
    match node:
        case Sequence():
            parts = list(node.parts)
            edge = -1 if at_end else 0
            while (part := trimmed(parts[edge], at_end=at_end)) is EMPTY_TEXT and len(parts) > 1:
                del parts[edge]
            parts[edge] = part
            return sequence(parts)
        case Alternation():
            branches = [trimmed(branch, at_end=at_end) for branch in node.branches]
            return EMPTY_TEXT if EMPTY_TEXT in branches else alternation(branches)
        case Repeat() if not node.asserts:
            return repeat(node.part, node.least, node.least, node.position)
    return node


def without(node: Node, assertion: Node) -> Node:
    """What ``node`` matches where ``assertion`` does not hold; what is looked ahead for stays as it is."""
    match node:
        case Sequence(parts=parts):
            return sequence([without(part, assertion) for part in parts])
        case Alternation(branches=branches):
            return alternation([without(branch, assertion) for branch in branches])
        case Repeat():
            return repeat(without(node.part, assertion), node.least, node.most, node.position)
    return alternation(()) if node is assertion else node


def assertions(node: Node) -> Iterator[Behind | Ahead]:
    """Every assertion in ``node``, but for those in what is looked ahead for."""
    match node:
        case Behind() | Ahead():
            yield node
        case Sequence(parts=parts) | Alternation(branches=parts):
            for part in parts:
                yield from assertions(part)
        case Repeat(part=part):
            yield from assertions(part)


def looks_behind(node: Node) -> Iterator[CodePoints]:
    """The ``points`` of every Behind anywhere in ``node``."""
    for assertion in assertions(node):
        if isinstance(assertion, Behind):
            yield assertion.points
        else:
            yield from looks_behind(assertion.part)


def looks_ahead_only(node: Node) -> bool:
    """Whether ``node`` does nothing but look ahead."""
    match node:
        case Ahead():
            return next(looks_behind(node), None) is None
        case Sequence(parts=parts) | Alternation(branches=parts):
            return all(map(looks_ahead_only, parts))
    return False


EMPTY_TEXT = _sequence(())
ANY_TEXT = repeat(chars(ANY), 0, None, 0)
LINE_ENDS = code_points([(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)])
START = behind((), start=True)
END = Ahead(nullable=True, asserts=True, part=chars(ANY), holds=False)
LINE_START = behind(LINE_ENDS, start=True)
LINE_END = alternation((END, ahead(chars(LINE_ENDS), holds=True)))
