"""Tool calls in the library's Lark notation: free text, and the calls that end it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sgframe.constraints import MOST_CALLS, Constraint, Tool, ToolConstraint
from sgframe.errors import RequestError
from sgframe_llguidance.dialect import literal
from sgframe_llguidance.schemas import embedded, prepare_schema

_ANY = r"(.|\n)*"


def tools_grammar(constraint: Constraint) -> str:
    """The grammar of ``constraint``, whose text is a ToolConstraint. Raises RequestError."""
    asked = msgspec.json.decode(constraint.text, type=ToolConstraint)
    if not asked.tools:
        raise RequestError("tools are asked for, and none is given: send at least one", code="invalid_tools")
    begin, more = _quote(asked.begin), _quote(asked.separator + asked.begin) if asked.parallel else ""
    calls = f"call ({more} call){{0,{MOST_CALLS - 1}}}" if asked.parallel else "call"
    start = f"{begin} {calls}" if asked.required else f"TEXT | opening {calls}"
    rules = [f"start: {start}", "call: " + " | ".join(f"call_{number}" for number in range(len(asked.tools)))]
    rules += [f"call_{number}: {_call(tool, asked.end, constraint)}" for number, tool in enumerate(asked.tools)]
    if not asked.required:
        rules += [
            f"opening[lazy]: /{_ANY}/ {begin}",  # ends with the first one
            f"TEXT: /{_ANY}/ & ~/{_ANY}{literal(asked.begin)}{_ANY}/",
        ]
    return "%llguidance {}\n" + "\n".join(rules)


def _call(tool: Tool, end: str, constraint: Constraint) -> str:
    comma, colon = (",", ":") if constraint.whitespace == "compact" else (", ", ": ")
    head = f'{{"name"{colon}{json.dumps(tool.name, ensure_ascii=False)}{comma}"arguments"{colon}'
    schema: dict[str, Any] = {"type": "object"} | prepare_schema(tool.parameters)
    return f"{_quote(head)} %json {embedded(schema, constraint.whitespace, constraint.approximate)} {_quote('}' + end)}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
