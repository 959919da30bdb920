"""Structured output as clients ask for it, in OpenAI's, vLLM's and SGLang's spellings → one Constraint.

Knows no grammar: whether a constraint can be honoured is the engine's to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import RequestError

Schema = dict[str, Any] | bool
"""A JSON Schema."""

_ABOUT_JSON = ("json_schema", "json_object", "tools")
"""Constraint kinds whose whitespace can be chosen, and that can be approximated."""
_KINDS = {
    "json_schema": "json_schema",
    "regex": "regex",
    "choice": "choice",
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
}
"""Top-level field → constraint kind."""


class Demand(NamedTuple):
    """What the output must match, said in the body's ``field``; ``kind`` and ``text`` are a Constraint's."""

    field: str
    kind: str
    text: str = ""


class JsonSchema(msgspec.Struct):
    """The schema an answer must match: it is always enforced to the letter, ``strict`` or not."""

    schema: Schema
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True):
    """``text``, ``json_object`` (a ``schema`` beside it counts) or ``json_schema``."""

    type: str
    json_schema: JsonSchema | None = None
    schema: Schema | None = None

    def demands(self) -> Iterator[Demand]:
        """At most one."""
        match self:
            case ResponseFormat(type="text"):
                return
            case ResponseFormat(type="json_object", schema=None):
                yield Demand("response_format", "json_object")
            case (
                ResponseFormat(type="json_object", schema=schema)
                | ResponseFormat(type="json_schema", json_schema=JsonSchema(schema=schema))
            ):
                yield _demand("response_format", "json_schema", schema)
            case ResponseFormat(type="json_schema"):
                raise RequestError("response_format needs a json_schema", param="response_format.json_schema")
            case _:
                raise RequestError(
                    f"response_format.type is 'text', 'json_object' or 'json_schema', found {self.type!r}",
                    param="response_format.type",
                )


class StructuredOutputs(msgspec.Struct, forbid_unknown_fields=True):
    """vLLM's object, with one of its first four fields. What ``disable_fallback`` and ``disable_any_whitespace`` switch off
    is off in any case, unless ``whitespace`` is ``free``."""

    json: str | Schema | None = None
    regex: str | None = None
    choice: list[str] | None = None
    json_object: bool = False
    whitespace_pattern: str | None = None
    disable_fallback: bool = False
    disable_any_whitespace: bool = False

    def demands(self) -> Iterator[Demand]:
        """At least one; the body refuses a second."""
        _refuse_pattern("structured_outputs.whitespace_pattern", self.whitespace_pattern)
        kinds = {"json": "json_schema", "regex": "regex", "choice": "choice"}
        found = [_demand("structured_outputs", kind, value) for _, kind, value in _said(self, kinds)]
        if self.json_object:
            found.append(Demand("structured_outputs", "json_object"))
        if not found:
            raise RequestError(
                "structured_outputs says nothing; give it one of json, regex, choice, json_object: true",
                param="structured_outputs",
            )
        yield from found


class StructuredBody(msgspec.Struct, kw_only=True):
    """What an output must match: at most one of ``response_format``, ``json_schema``, ``regex``, ``choice``, vLLM's names of
    these (``guided_json``, ``guided_regex``, ``guided_choice``), ``structured_outputs`` and, in a chat, ``tools``.

    ``grammar`` (or ``guided_decoding_backend``) names the grammar that enforces it, if not the server's own. ``whitespace``
    of JSON is ``fixed`` (``", "`` and ``": "``; the default), ``compact`` (none) or ``free`` (bounded). With ``approximate``
    a schema that cannot be honoured to the letter is taken by the nearest one that allows more, and
    ``usage.sgframe.approximations`` says where; without it such a schema is refused.
    """

    response_format: ResponseFormat | None = None
    json_schema: str | Schema | None = None
    regex: str | None = None
    choice: list[str] | None = None
    guided_json: str | Schema | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_whitespace_pattern: str | None = None
    structured_outputs: StructuredOutputs | None = None
    grammar: str | None = None
    guided_decoding_backend: str | None = None
    whitespace: Whitespace | None = None
    approximate: bool = False

    def constraint(self) -> Constraint | None:
        """What the output must match; None for free text. Raises RequestError, also for an option without effect."""
        demand = self.demand()
        self._check_options(demand)
        if demand is None:
            return None
        grammar = self.grammar or self.guided_decoding_backend or ""
        return Constraint(
            kind=demand.kind,
            text=demand.text,
            whitespace=self.whitespace or "fixed",
            approximate=self.approximate,
            grammar="" if grammar == "auto" else grammar,
        )

    def demand(self) -> Demand | None:
        """The one thing that the output must match. Raises RequestError for two."""
        found = list(self.demands())
        if len(found) > 1:
            first, second = (f"{one.field} ({one.kind})" for one in found[:2])
            raise RequestError(
                f"{first} and {second} both say what the output must match; send one of them", param=found[1].field
            )
        return found[0] if found else None

    def demands(self) -> Iterator[Demand]:
        """All that the output must match."""
        if self.response_format is not None:
            yield from self.response_format.demands()
        if self.structured_outputs is not None:
            yield from self.structured_outputs.demands()
        for name, kind, value in _said(self, _KINDS):
            yield _demand(name, kind, value)

    def client_names(self) -> Mapping[str, str]:
        """Engine's name of a field → the client's, where they differ: errors name what the client wrote."""
        demand = self.demand()
        if demand is None:
            return {}
        return {"constraint": demand.field} | ({} if self.grammar else {"grammar": "guided_decoding_backend"})

    def _check_options(self, demand: Demand | None) -> None:
        _refuse_pattern("guided_whitespace_pattern", self.guided_whitespace_pattern)
        if self.grammar and self.guided_decoding_backend:
            raise RequestError(
                "grammar and guided_decoding_backend both name a grammar; send one of them",
                param="guided_decoding_backend",
            )
        for name in ("grammar", "guided_decoding_backend", "whitespace", "approximate"):
            if not getattr(self, name):
                continue
            if demand is None:
                raise RequestError(f"{name} has no effect: nothing says what the output must match", param=name)
            if name in ("whitespace", "approximate") and demand.kind not in _ABOUT_JSON:
                raise RequestError(f"{name} is about JSON; it has no effect on {demand.field}", param=name)
        if self.whitespace == "free" and (asked := self.structured_outputs) and asked.disable_any_whitespace:
            raise RequestError(
                "whitespace 'free' contradicts structured_outputs.disable_any_whitespace", param="whitespace"
            )


def _said(body: msgspec.Struct, kinds: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """(name, kind, value) of the fields in ``kinds`` that were sent."""
    for name, kind in kinds.items():
        if (value := getattr(body, name)) is not None:
            yield name, kind, value


def _demand(field: str, kind: str, value: Any) -> Demand:
    """A regex stands as it is, a schema or choices as JSON text; a schema may come as text, too."""
    if kind == "regex":
        return Demand(field, kind, value)
    if kind == "json_schema" and isinstance(value, str):
        value = _parsed(field, value)
    return Demand(field, kind, msgspec.json.encode(value).decode())


def _parsed(field: str, text: str) -> Schema:
    try:
        schema: Schema = msgspec.json.decode(text, type=Schema)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"{field} is not the JSON text of a schema: {error}", param=field) from None
    return schema


def _refuse_pattern(field: str, pattern: str | None) -> None:
    if pattern is not None:
        raise RequestError(
            f"{field} is not offered; choose the whitespace of JSON by whitespace: 'fixed', 'compact' or 'free'",
            param=field,
            code="unsupported_parameter",
        )
