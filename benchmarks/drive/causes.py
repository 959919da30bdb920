"""Why masks differ: the causes that are known, each with the one who is right. Knows no grammar but by its partings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from drive.parting import Parting

_CLOSED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_INNERMOST = re.compile(rb"\{[^\[\]{}]*\}|\[[^\[\]{}]*\]")
_VALUE = re.compile(rb'"((?:[^"\\]|\\.)*)": ?"[^"]*\Z')
_TYPES = {b'"': "string", b"[": "array", b"{": "object", b"t": "true", b"f": "false", b"n": "null"}
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*")
_MINUTES = re.compile(rb".*\d\d:\d\d:", re.DOTALL)
_FULL_DATE = re.compile(rb"\d{4}-\d\d-\d\d")
_MONTH = re.compile(rb"\d{4}-\d\d-")


class Place(msgspec.Struct, frozen=True):
    """What stands around a parting. ``string`` is the JSON string that is open, as it is spelled so far, or None;
    ``types`` are those of the values that only we begin here; ``is_unmatched`` says whether the
    string is the name of a member that no pattern of the schema may match, or its value."""

    string: bytes | None
    is_unmatched: bool
    in_escape: bool
    types: frozenset[str]


class Cause(msgspec.Struct, frozen=True):
    name: str
    right: str
    why: str
    holds: Callable[[Parting, bytes, Place], bool]
    """Of a parting, its byte (empty where there is none) and its place in JSON."""


CUT = Cause(
    "another cut into tokens",
    "both",
    "the text is forced; we allow every cut of it, the other the tokenizer's own alone",
    lambda at, byte, place: at.ours and not byte,
)

_IN_JSON = (
    Cause(
        "DEL in a string",
        "ours",
        "RFC 8259, section 7: U+007F may stand unescaped",
        lambda at, byte, place: at.ours and place.string is not None and byte == b"\x7f" and len(place.types) == 1,
    ),
    Cause(
        "escapes",
        "ours",
        "RFC 8259, section 7: any character may be escaped; the other writes none in some strings with bounds, pattern or "
        "format, and in names",
        lambda at, byte, place: at.ours and place.string is not None and not place.in_escape and byte == b"\\",
    ),
    Cause(
        "escaped solidus",
        "ours",
        r"RFC 8259, section 7: \/ is an escape",
        lambda at, byte, place: at.ours and place.in_escape and byte == b"/",
    ),
    Cause(
        "excluded character, escaped",
        "ours",
        r'a class such as [^"] or [^\\] excludes a character in every spelling; the other lets \" or \\ through',
        lambda at, byte, place: not at.ours and place.in_escape and byte in (b'"', b"\\"),
    ),
    Cause(
        "types without `type`",
        "ours",
        "JSON Schema, core 7.6.1: without type a value may be of any; the other narrows it to that of its keywords",
        lambda at, byte, place: at.ours and place.string is None and len(place.types) > 1,
    ),
    Cause(
        "minus zero",
        "ours",
        "JSON Schema, core 4.2.1: numbers are mathematical, so -0 is 0 and no less than it",
        lambda at, byte, place: at.ours and place.string is None and byte == b"-" and at.then == b"0",
    ),
    Cause(
        "spelling of a number",
        "ours",
        "JSON Schema, validation 6.1.1: 1.0 and 1e2 are integers; core 4.2.1: numbers are mathematical, so 8e3 is at least "
        "4096 and 2e-1 at most 1",
        lambda at, byte, place: at.ours and place.string is None and _is_number_spelling(at, byte),
    ),
    Cause(
        "leap second at any minute",
        "ours",
        "RFC 3339, section 5.7: second 60 comes at the end of a day in UTC alone",
        lambda at, byte, place: not at.ours and byte == b"6" and _matches(_MINUTES, place),
    ),
    Cause(
        "day beyond its month",
        "ours",
        "RFC 3339, section 5.7: February has no 30th",
        lambda at, byte, place: not at.ours and byte == b"3" and _matches(_MONTH, place),
    ),
    Cause(
        "t and z in small letters",
        "ours",
        "RFC 3339, section 5.6: T and Z may be in lower case",
        lambda at, byte, place: at.ours and byte in (b"t", b"z") and _begins(_FULL_DATE, place),
    ),
    Cause(
        "URI",
        "ours",
        "RFC 3986: a scheme may have digits (3.1), a host be an IP literal in brackets (3.2.2)",
        lambda at, byte, place: (
            at.ours
            and (
                (byte.isdigit() and _matches(_SCHEME, place)) or (byte == b"[" and (place.string or b"")[-2:] == b"//")
            )
        ),
    ),
    Cause(
        "names that no pattern matches",
        "ours",
        "JSON Schema, core 10.3.2.2: patternProperties says nothing of other names; the other forbids them",
        lambda at, byte, place: at.ours and place.is_unmatched,
    ),
)
CAUSES = (CUT, *_IN_JSON)


def cause_of(parting: Parting, partings: Sequence[Parting], schema: str | None) -> Cause | None:
    """The cause of ``parting``, one of the ``partings`` of a position; None where none is known. ``schema`` is the JSON
    Schema that the text is to fit, None for one that is not JSON."""
    if schema is None:
        return CUT if parting.ours and parting.byte is None else None
    byte = b"" if parting.byte is None else bytes((parting.byte,))
    place = _place(parting, partings, schema)
    return next((cause for cause in CAUSES if cause.holds(parting, byte, place)), None)


def _place(parting: Parting, partings: Sequence[Parting], schema: str) -> Place:
    around, quote, inside = _CLOSED.sub(b"", parting.before).partition(b'"')
    begun = [one.byte for one in partings if one.ours and one.byte is not None and one.before == parting.before]
    patterns = list(_patterns(json.loads(schema)))
    backslashes = len(inside) - len(inside.rstrip(b"\\"))
    return Place(
        string=inside if quote else None,
        is_unmatched=bool(quote) and (_opens_name(around) or _is_valued(parting.before, patterns)) and bool(patterns),
        in_escape=backslashes % 2 == 1,
        types=frozenset(_TYPES.get(bytes((byte,)), "number") for byte in begun),
    )


def _opens_name(around: bytes) -> bool:
    """Whether a string that begins after ``around``, JSON without its strings, is a member's name."""
    while (inner := _INNERMOST.sub(b"", around)) != around:
        around = inner
    return around.rstrip().endswith((b"{", b",")) and around.rfind(b"{") > around.rfind(b"[")


def _is_valued(before: bytes, patterns: list[str]) -> bool:
    """Whether a string that is open at the end of ``before`` is the value of a member that no pattern matches."""
    member = _VALUE.search(before)
    return member is not None and not any(re.search(pattern, member[1].decode()) for pattern in patterns)


def _patterns(schema: object) -> Iterator[str]:
    """Of names, anywhere in ``schema``."""
    if isinstance(schema, dict):
        yield from schema.get("patternProperties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _patterns(inner)


def _is_number_spelling(parting: Parting, byte: bytes) -> bool:
    """A fraction or exponent, or a digit that is right only if one follows."""
    begun = parting.before[-1:].isdigit()
    return (begun and byte in (b".", b"e", b"E")) or (byte.isdigit() and set(parting.then) <= set(b".Ee"))


def _matches(pattern: re.Pattern[bytes], place: Place) -> bool:
    return place.string is not None and pattern.fullmatch(place.string) is not None


def _begins(pattern: re.Pattern[bytes], place: Place) -> bool:
    return place.string is not None and pattern.match(place.string) is not None
