"""JSON Schemas to ask for: two fixed ones, which answer whatever the model says in a bounded length, and real ones from a
file. Judges answers by ``jsonschema``. Knows no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

VERDICT = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["good", "fair", "poor"]},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["verdict", "score"],
    "additionalProperties": False,
}
"""About 16 tokens."""

RECORD = {
    "type": "object",
    "properties": {
        "full_name": {"type": "string", "maxLength": 30},
        "birth_year": {"type": "integer", "minimum": 1900, "maximum": 2030},
        "children": {"type": "integer", "minimum": 0, "maximum": 12},
        "marital_status": {"enum": ["single", "married", "divorced", "widowed"]},
        "employed": {"type": "boolean"},
        "languages": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "language": {"type": "string", "maxLength": 15},
                    "years": {"type": "integer", "minimum": 0, "maximum": 99},
                },
                "required": ["language", "years"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["full_name", "birth_year", "children", "marital_status", "employed", "languages"],
    "additionalProperties": False,
}
"""60 to 150 tokens."""

_FUNCTION_CALLS = ("BFCL", "Glaive")
"""How the names of groups begin whose schemas are of the arguments of functions."""


class Sample(msgspec.Struct, frozen=True):
    """A schema, and what sort it is of."""

    id: str
    group: str
    schema: Any

    @property
    def is_call(self) -> bool:
        """Whether its instances are the arguments of a function call."""
        return self.group.startswith(_FUNCTION_CALLS)

    @property
    def prompt(self) -> str:
        return f"Answer with JSON that fits this schema: {msgspec.json.encode(self.schema).decode()}"


_decoder = msgspec.json.Decoder(Sample)


def read_samples(path: Path, limit: int | None) -> list[Sample]:
    """The samples in ``path``, one a line; with a ``limit`` no more, always the same, and each group in its proportion."""
    samples = sorted(_decoder.decode_lines(path.read_bytes()), key=lambda sample: sample.group)
    wanted = min(limit or len(samples), len(samples))
    return [samples[place * len(samples) // wanted] for place in range(wanted)]


def is_valid(text: str, schema: Any) -> bool:
    """Whether ``text`` is JSON (RFC 8259) that ``schema`` allows; formats are annotations."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return bool(validator_for(schema, default=Draft202012Validator)(schema).is_valid(value))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
