"""The regexes in ``tests/data``."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, NamedTuple

from schema_data import FOLDER

_OTHER_MEANING = re.compile(r"\[:\^?\w+:\]|\[\^?\]|&&|\\b\{|\(\?[A-Za-z]*-?[A-Za-z]*[uRx]")
"""What ECMA-262 reads otherwise or not at all: POSIX classes, ``[]``, set operations, word borders by name, other flags."""
_UNICODE_CLASS = re.compile(r"\\[dDwWsSbB]")


class Case(NamedTuple):
    """Whether ``pattern`` matches somewhere in ``text``, and whether it is known to match all of it."""

    name: str
    pattern: str
    text: str
    somewhere: bool
    whole: bool


def schema_patterns() -> list[str]:
    """Patterns of real schemas."""
    return [pattern for pattern, _ in json.loads((FOLDER / "schema_patterns.json").read_text())]


def regex_cases() -> list[Case]:
    """The regex crate's own tests, as far as they are about text and mean the same to ECMA-262."""
    tests = [
        test for file in sorted((FOLDER / "regex").glob("*.toml")) for test in tomllib.loads(file.read_text())["test"]
    ]
    return [case for test in tests if (case := _case(test)) is not None]


def _case(test: dict[str, Any]) -> Case | None:
    pattern, text = test["regex"], _text(test)
    if text is None or not isinstance(pattern, str) or test.keys() & {"bounds", "line-terminator", "compiles"}:
        return None
    by_unicode = _UNICODE_CLASS.search(pattern) or test.get("case-insensitive")
    if _OTHER_MEANING.search(pattern) or (by_unicode and not text.isascii()):
        return None
    if test.get("anchored"):
        pattern = f"^(?:{pattern})"
    if test.get("case-insensitive"):
        pattern = f"(?i){pattern}"
    whole = [0, len(text.encode())]
    return Case(test["name"], pattern, text, bool(test["matches"]), whole in map(_span, test["matches"]))


def _text(test: dict[str, Any]) -> str | None:
    """None if it is not UTF-8, or has a carriage return: a line ends there for ECMA-262."""
    raw = test["haystack"].encode()
    if test.get("unescape"):
        raw = re.sub(rb"\\x([0-9A-Fa-f]{2})", lambda escape: bytes.fromhex(escape[1].decode()), raw)
        raw = raw.replace(b"\\n", b"\n").replace(b"\\r", b"\r")
    try:
        return None if b"\r" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def _span(match: Any) -> Any:
    """A match is a span, the spans of its groups, or a table with one of these."""
    if isinstance(match, dict):
        match = match.get("span") or match["spans"]
    return match[0] if isinstance(match[0], list) else match
