"""JSON Schemas to ask for: two fixed ones, which answer whatever the model says in a bounded length, and real ones from a
file. Judges answers by ``jsonschema``. Knows no server."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
        "date_of_birth": {"type": "string", "pattern": "^[12][0-9]{3}-[01][0-9]-[0-3][0-9]$"},
        "number_of_children": {"type": "integer", "minimum": 0, "maximum": 12},
        "marital_status": {"enum": ["single", "married", "divorced", "widowed"]},
        "is_employed": {"type": "boolean"},
        "languages": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "language": {"type": "string", "maxLength": 15},
                    "years_of_practice": {"type": "integer", "minimum": 0, "maximum": 99},
                },
                "required": ["language", "years_of_practice"],
                "additionalProperties": False,
            },
        },
    },
    "required": [
        "full_name",
        "date_of_birth",
        "number_of_children",
        "marital_status",
        "is_employed",
        "languages",
    ],
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


def read_samples(path: Path, limit: int | None) -> list[Sample]:
    """The samples in ``path``, one a line; of more than ``limit``, as many, each group in its proportion: always the same."""
    samples = sorted(msgspec.json.decode_lines(path.read_bytes(), type=Sample), key=lambda sample: sample.group)
    wanted = min(limit or len(samples), len(samples))
    return [samples[place * len(samples) // wanted] for place in range(wanted)]


def is_valid(text: str, schema: Any) -> bool:
    """Whether ``text`` is JSON (RFC 8259) that ``schema`` allows; formats are annotations."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return bool(validator_for(schema, default=Draft202012Validator)(schema).is_valid(value))


def count_valid(texts: Sequence[str], schema: Any) -> int:
    return sum(is_valid(text, schema) for text in texts)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
