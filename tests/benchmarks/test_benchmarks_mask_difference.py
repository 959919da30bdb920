"""Masks that differ are told apart by cause. Whether the other libraries have these faults, no test says."""

from __future__ import annotations

from typing import Any

import pytest
from drive.causes import cause_of
from drive.parting import Pair, Parting
from mask_difference import Case, Found, compare, report

from sgframe.constraints import Constraint
from sgframe.testing import grammar_walker
from sgframe.testing.walker import GrammarWalker, WalkableGrammar


@pytest.fixture(scope="module")
def walker() -> GrammarWalker:
    return grammar_walker("compressed-fsm", "simulated")


def partings(walker: GrammarWalker, one: WalkableGrammar, other: WalkableGrammar) -> list[tuple[bytes, Any, bool]]:
    pair = Pair(walker.vocabulary, one.matcher(), other.matcher())
    return [(parting.before, parting.byte, parting.ours) for parting in pair.partings()]


def test_two_grammars_of_one_language_do_not_part(walker: GrammarWalker) -> None:
    found = Found()
    compare(Case(Constraint("regex", "[ab]{3}"), ["aba"]), walker, walker, found)
    assert (found.compared, found.positions, found.equal) == (1, 3, 3)
    assert "unexplained: 0" in report("itself", found)


def test_they_part_at_the_first_byte_that_one_of_them_forbids(walker: GrammarWalker) -> None:
    wide, narrow = walker.compile(regex="[abc]x"), walker.compile(regex="[ac]x|dx")
    assert partings(walker, wide, narrow) == [(b"", ord("b"), True), (b"", ord("d"), False)]


def test_what_no_cause_explains_is_shown(walker: GrammarWalker) -> None:
    found = Found()
    found.add(Constraint("regex", "[ab]"), [Parting(b"", ord("b"), True, b"", 1, b"b")])
    assert len(found.unexplained) == 1
    assert "unexplained: 1\n    [ab]\n    Parting(before=b'', byte=98" in report("narrow", found)


@pytest.mark.parametrize(
    ("before", "byte", "ours", "then", "cause"),
    [
        (b'{"a', 0x7F, True, b'"', "DEL in a string"),
        (b'{"a":"b', ord("\\"), True, b"u", "escapes"),
        (b'{"a":"b\\', ord("/"), True, b'"', "escaped solidus"),
        (b'["\\', ord('"'), False, b'"', "excluded character, escaped"),
        (b"[", ord("-"), True, b"0", "minus zero"),
        (b"[1", ord("."), True, b"0", "spelling of a number"),
        (b'"2022-01-01T12:00:', ord("6"), False, b"0", "leap second at any minute"),
        (b'{"a":[{"b":1}],"', ord("x"), True, b'"', "names that no pattern matches"),
        (b'{"b":"', ord("x"), True, b'"', "names that no pattern matches"),
        (b'{"/a":"', ord("x"), True, b'"', None),
        (b'{"a":["', ord("x"), True, b'"', None),
        (b"[1", ord("."), False, b"0", None),
    ],
)
def test_a_cause_is_known_by_where_and_how_they_part(
    before: bytes, byte: int, ours: bool, then: bytes, cause: str | None
) -> None:
    parting = Parting(before, byte, ours, then, 1, b"")
    found = cause_of(parting, [parting], '{"patternProperties": {"^/": {}}}')
    assert (found.name if found else None) == cause


@pytest.mark.slow
def test_a_difference_from_llguidance_is_found_and_explained() -> None:
    pytest.importorskip("llguidance")
    ours, theirs = (grammar_walker(name, "simulated") for name in ("compressed-fsm", "llguidance"))
    found = Found()
    compare(Case(Constraint("json_schema", '{"type": "integer"}'), ["12"]), ours, theirs, found)
    assert (found.positions, found.equal, found.unexplained) == (2, 1, [])
    assert found.at.keys() == {"spelling of a number"}
