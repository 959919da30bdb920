"""What the value of a ``gen`` is: the constraint its text must match, and how the text is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from sgframe.constraints import Constraint

_DIGITS = "[0-9]{1,18}"
_EXPRESSIONS = {
    int: f" ?[+-]?{_DIGITS}",
    float: f" ?[+-]?{_DIGITS}(\\.{_DIGITS})?([eE][+-]?[0-9]{{1,2}})?",
    bool: " ?(true|false|True|False)",
}
"""Numbers are bounded, so that one always ends, and no float is infinite."""
_TRUTH = {"true": True, "false": False}
_WITH_SCHEMAS = frozenset({"items", "prefixItems", "anyOf", "oneOf", "additionalProperties"})
"""Words of JSON Schema that have a schema, or a list of them, as pydantic writes them."""


class Shape(NamedTuple):
    """``read`` makes the value of a text; it raises ValueError for a text that was cut off. ``name`` is for errors."""

    name: str
    constraint: Constraint | None
    read: Callable[[str], Any]


def shape_of(regex: str | None, json_schema: object, choices: Sequence[str] | None, dtype: type | None) -> Shape:
    """The shape that the arguments of ``gen`` ask for, of which one may be given. Raises TypeError or ValueError."""
    said = {"regex": regex, "json_schema": json_schema, "choices": choices, "dtype": dtype}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{given[0]} and {given[1]} both say what the value is; give one of them")
    if regex is not None:
        if not isinstance(regex, str):
            raise TypeError(f"regex is a regular expression in a str, found {regex!r}")
        return Shape("match", Constraint("regex", regex), str)
    if choices is not None:
        return _choice(checked_choices(choices))
    if json_schema is not None:
        return _json(json_schema)
    return _of_type(dtype)


def checked_choices(choices: object) -> tuple[str, ...]:
    """``choices`` as a tuple of different texts, none empty. Raises TypeError or ValueError."""
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise TypeError(f"choices is a list of str, found {choices!r}")
    for choice in choices:
        if not isinstance(choice, str):
            raise TypeError(f"choices is a list of str, found {choice!r} in it")
        if not choice:
            raise ValueError("a choice is empty; give each some text")
    if not choices:
        raise ValueError("choices is empty; give at least one")
    if doubled := [choice for at, choice in enumerate(choices) if choice in choices[:at]]:
        raise ValueError(f"choices has {doubled[0]!r} twice; give each once")
    return tuple(choices)


def _choice(choices: tuple[str, ...]) -> Shape:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("it is none of the choices")
        return text

    return Shape("choice", Constraint("choice", json.dumps(choices)), read)


def _json(schema: object) -> Shape:
    if isinstance(schema, type) and hasattr(schema, "model_validate_json"):  # pydantic need not be imported to know it
        model = cast(Any, schema)
        text = json.dumps(_closed(model.model_json_schema()))
        return Shape(model.__name__, Constraint("json_schema", text), model.model_validate_json)
    if isinstance(schema, str):
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(f"json_schema is not the JSON text of a schema: {error}") from None
    if not isinstance(schema, dict | bool):
        raise TypeError(f"json_schema is a dict, its JSON text or a pydantic model, found {schema!r}")
    return Shape("JSON", Constraint("json_schema", json.dumps(schema)), json.loads)


def _closed(schema: Any) -> Any:
    """A pydantic model's schema, whose objects have no properties but their fields unless they say that they may: pydantic
    would ignore those, and a small model goes on writing them."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) if key in _WITH_SCHEMAS else value for key, value in schema.items()}
    for key in ("properties", "$defs"):
        if key in closed:
            closed[key] = {name: _closed(value) for name, value in closed[key].items()}
    return {"additionalProperties": False, **closed} if "properties" in closed else closed


def _of_type(dtype: type | None) -> Shape:
    if dtype is None or dtype is str:
        return Shape("str", None, str)
    if dtype not in _EXPRESSIONS:
        raise TypeError(f"dtype is int, float, bool or str, found {dtype!r}; for other values there is json_schema")
    return Shape(dtype.__name__, Constraint("regex", _EXPRESSIONS[dtype]), _truth if dtype is bool else dtype)


def _truth(text: str) -> bool:
    if (truth := _TRUTH.get(text.strip().lower())) is None:
        raise ValueError("it is neither true nor false")
    return truth
