"""What an output must match, as plain data: said by a caller, compiled by a grammar."""

from __future__ import annotations

from typing import Literal

import msgspec

from sgframe.errors import RequestError

Whitespace = Literal["fixed", "compact", "free"]


class Constraint(msgspec.Struct, frozen=True):
    """One constraint on an output.

    Attributes:
        kind: what ``text`` is. ``regex``: an ECMA-262 regular expression that the whole output matches.
            ``json_schema``: the JSON text of a JSON Schema (draft 2020-12). ``json_object``: any JSON object; no text.
            ``choice``: the JSON text of an array of strings, of which the output is one. ``tools``: the JSON text of a
            ToolConstraint.
        whitespace: of JSON: ``fixed`` (``", "`` and ``": "``, as Python's ``json.dumps`` writes), ``compact`` (none) or
            ``free``, which is bounded all the same.
        approximate: take a schema that cannot be honoured to the letter by the nearest one that allows more, and say
            what was approximated. Without it such a schema is refused.
        grammar: the grammar that compiles it; empty for the server's own.
    """

    kind: str
    text: str
    whitespace: Whitespace = "fixed"
    approximate: bool = False
    grammar: str = ""


MOST_CALLS = 16
"""Calls in one output: a small model, once it calls, may see no reason to stop."""


class Tool(msgspec.Struct, frozen=True):
    """A function that may be called; ``parameters`` is the JSON Schema of its arguments, an object."""

    name: str
    parameters: dict[str, object] | bool


def read_choices(text: str) -> list[str]:
    """The strings of a ``choice``. Raises RequestError when there is none."""
    try:
        choices = msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError as error:
        raise RequestError(f"a choice is a JSON array of strings: {error}", code="invalid_choice") from None
    if not choices:
        raise RequestError("a choice needs at least one string, found none", code="invalid_choice")
    return choices


class ToolConstraint(msgspec.Struct, frozen=True):
    """Calls written as ``begin``, a JSON object ``{"name": …, "arguments": …}``, ``end``.

    The output is free text without ``begin`` in it, then calls; with ``required`` the calls alone, at least one. There
    is at most one call, with ``parallel`` MOST_CALLS; calls are parted by ``separator``.
    """

    tools: list[Tool]
    required: bool
    parallel: bool
    begin: str = "<tool_call>\n"
    end: str = "\n</tool_call>"
    separator: str = "\n"
