"""JSON Schemas that the library honours to the letter: it drops in silence what it does not know.

Owns what is known of it (version 0.2.9): every keyword that it would weaken is refused, rewritten, or, when the caller asks
for an approximation, taken out and reported. It may still allow less: integers without a fraction, no escapes in strings
with a pattern or a bounded length, no other types where a keyword stands without ``type``. Formats hold as far as its
patterns go, which know no calendar. Two faults cannot be kept out: it takes half a surrogate pair as an escape in a string,
and the name of a declared property, spelled with escapes, for another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from sgframe.errors import RequestError
from sgframe_xgrammar.string_pattern import in_string

_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_KEYWORDS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": _NUMERIC,
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties"),
    ),
}
"""What it honours, by the type that it belongs to."""
_ALONE = ("$ref", "const", "enum", "anyOf", "allOf")
"""Honoured only where no other keyword stands beside them."""
_DROPPED = (
    *("not", "if", "oneOf", "dependentRequired", "dependentSchemas", "dependencies", "contains", "uniqueItems"),
    *("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "additionalItems"),
)
_HARMLESS = {"uniqueItems": False, "unevaluatedProperties": True, "unevaluatedItems": True, "additionalItems": True}
_IGNORED_FORMATS = ("regex", "idn-email", "idn-hostname", "iri", "iri-reference")
_MOST_DIVISOR = 1000
"""From there on it ignores ``multipleOf``."""
_JSON_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}


class HonestSchema:
    """``schema`` rewritten; ``approximations`` says what was taken out. Raises RequestError unless ``approximate``."""

    def __init__(self, schema: Any, approximate: bool) -> None:
        self.schema = deepcopy(schema)
        self.approximations: list[str] = []
        self._approximate = approximate
        self._seen: set[int] = set()
        self._visit(self.schema, "#")

    def _visit(self, node: Any, pointer: str) -> None:
        if not isinstance(node, dict) or id(node) in self._seen:
            return  # a boolean, or what the library itself refuses
        self._seen.add(id(node))
        for keyword in _DROPPED:
            if keyword in node and not (keyword in _HARMLESS and node[keyword] == _HARMLESS[keyword]):
                self._give_up(node, keyword, pointer, "it would be ignored", instead={"oneOf": "anyOf"}.get(keyword))
        if pointer != "#" and "$id" in node:
            self._give_up(node, "$id", pointer, "references below it would miss")
        alone = next((keyword for keyword in _ALONE if keyword in node), None)
        if alone:
            self._visit_alone(node, alone, pointer)
        else:
            self._visit_typed(node, pointer)

    def _visit_alone(self, node: dict[str, Any], alone: str, pointer: str) -> None:
        if alone in ("const", "enum"):
            self._drop_fulfilled_type(node, node["enum"] if alone == "enum" else [node["const"]])
        others = [*_ALONE, "type", *(keyword for keywords in _KEYWORDS.values() for keyword in keywords)]
        for keyword in others:
            if keyword in node and keyword != alone:
                self._give_up(node, keyword, pointer, f"it would be ignored beside {alone}")
        branches = node[alone]
        if alone == "allOf" and isinstance(branches, list) and len(branches) != 1:
            self._give_up(node, alone, pointer, "only one of its schemas would count")
        elif alone in ("anyOf", "allOf") and isinstance(branches, list):
            for place, branch in enumerate(branches):
                self._visit(branch, f"{pointer}/{alone}/{place}")
        elif alone == "$ref":
            self._follow(node, pointer)

    def _drop_fulfilled_type(self, node: dict[str, Any], values: Any) -> None:
        types = [node["type"]] if isinstance(node.get("type"), str) else node.get("type", [])
        if isinstance(values, list) and all(
            any(_JSON_TYPES.get(name, _never)(value) for name in types) for value in values
        ):
            node.pop("type", None)

    def _follow(self, node: dict[str, Any], pointer: str) -> None:
        reference = node["$ref"]
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return self._give_up(node, "$ref", pointer, "only references like #/$defs/name are followed")
        target: Any = self.schema
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            elif isinstance(target, dict) and name in target:
                target = target[name]
            else:
                return None  # the library refuses it
        return self._visit(target, reference)

    # -------------------------------------------------------------------------------------------- by type

    def _visit_typed(self, node: dict[str, Any], pointer: str) -> None:
        if "type" not in node:
            named = [name for name, keywords in _KEYWORDS.items() if any(keyword in node for keyword in keywords)]
            if named:
                node["type"] = named
        self._visit_string(node, pointer)
        self._visit_number(node, pointer)
        self._visit_array(node, pointer)
        self._visit_object(node, pointer)

    def _visit_string(self, node: dict[str, Any], pointer: str) -> None:
        if node.get("format") in _IGNORED_FORMATS:
            self._give_up(node, "format", pointer, "it would be ignored")
        if "pattern" in node:
            self._translate(node, "pattern", pointer)
        main = next((keyword for keyword in ("pattern", "format") if keyword in node), None)
        for keyword in ("minLength", "maxLength", "format"):
            if main and keyword in node and keyword != main:
                self._give_up(node, keyword, pointer, f"it would be ignored beside {main}")

    def _visit_number(self, node: dict[str, Any], pointer: str) -> None:
        divisor = node.get("multipleOf")
        honoured = node.get("type") == "integer" and isinstance(divisor, int) and divisor <= _MOST_DIVISOR
        if "multipleOf" in node and (not honoured or any(keyword in node for keyword in _NUMERIC[:4])):
            self._give_up(
                node, "multipleOf", pointer, f"only integers of at most {_MOST_DIVISOR}, without bounds, count"
            )

    def _visit_array(self, node: dict[str, Any], pointer: str) -> None:
        if isinstance(prefix := node.get("prefixItems"), list):
            for place, item in enumerate(prefix):
                self._visit(item, f"{pointer}/prefixItems/{place}")
        self._visit(node.get("items"), f"{pointer}/items")

    def _visit_object(self, node: dict[str, Any], pointer: str) -> None:
        properties = node.get("properties")
        if isinstance(properties, dict):
            if spelled := [name for name in properties if json.dumps(name, ensure_ascii=False) != f'"{name}"']:
                self._give_up(
                    node, "properties", pointer, f"it would take {spelled[0]!r}, with its escapes, for another"
                )
            for name, schema in properties.items():
                self._visit(schema, f"{pointer}/properties/{_escaped(name)}")
        self._visit(node.get("additionalProperties"), f"{pointer}/additionalProperties")
        if "propertyNames" in node:
            self._visit_names(node, pointer)
        if "patternProperties" in node:
            self._visit_pattern_properties(node, pointer)
        self._require_declared(node, pointer)
        keyed = "patternProperties" in node or "propertyNames" in node
        counted = not keyed and (node.get("additionalProperties") is False or node.get("minProperties") == 1)
        if "minProperties" in node and not counted:
            self._give_up(node, "minProperties", pointer, "a property written twice would count twice")
        if "maxProperties" in node and keyed:
            self._give_up(
                node, "maxProperties", pointer, "it would be ignored beside propertyNames or patternProperties"
            )

    def _visit_names(self, node: dict[str, Any], pointer: str) -> None:
        names = node["propertyNames"]
        if node.keys() & {"properties", "patternProperties", "additionalProperties"}:
            return self._give_up(
                node, "propertyNames", pointer, "it would be ignored beside other keywords on properties"
            )
        if (
            not isinstance(names, dict)
            or not isinstance(names.get("pattern"), str)
            or names.keys() - {"pattern", "type"}
        ):
            return self._give_up(node, "propertyNames", pointer, "only a pattern is honoured")
        return self._translate(names, "pattern", f"{pointer}/propertyNames")

    def _visit_pattern_properties(self, node: dict[str, Any], pointer: str) -> None:
        by_pattern = node["patternProperties"]
        if not isinstance(by_pattern, dict):
            return None  # the library refuses it
        if len(by_pattern) > 1 or "properties" in node or isinstance(node.get("additionalProperties"), dict):
            return self._give_up(node, "patternProperties", pointer, "more than one rule could hold for a property")
        for pattern, schema in by_pattern.items():
            self._visit(schema, f"{pointer}/patternProperties/{_escaped(pattern)}")
            if isinstance(translated := self._in_string(node, "patternProperties", pointer, pattern), str):
                node["patternProperties"] = {translated: schema}
        return None

    def _require_declared(self, node: dict[str, Any], pointer: str) -> None:
        """Declare what is required and not declared: the library would not ask for it."""
        required, properties = node.get("required"), node.get("properties", {})
        if not isinstance(required, list) or not isinstance(properties, dict):
            return None  # the library refuses it
        missing = [name for name in required if name not in properties]
        if missing and ("patternProperties" in node or "propertyNames" in node):
            return self._give_up(node, "required", pointer, f"{missing[0]!r} is not among the properties")
        if missing:
            others = node.get("additionalProperties", {})
            node["properties"] = properties | {name: {} if others is True else others for name in missing}
        return None

    # -------------------------------------------------------------------------------------------- giving up

    def _translate(self, node: dict[str, Any], keyword: str, pointer: str) -> None:
        if isinstance(node[keyword], str):
            translated = self._in_string(node, keyword, pointer, node[keyword])
            if translated is not None:
                node[keyword] = translated

    def _in_string(self, node: dict[str, Any], keyword: str, pointer: str, pattern: str) -> str | None:
        try:
            return in_string(pattern)
        except ValueError as error:
            self._give_up(node, keyword, pointer, f"in {pattern!r}, {error}")
            return None

    def _give_up(self, node: dict[str, Any], keyword: str, pointer: str, why: str, instead: str | None = None) -> None:
        if not self._approximate:
            raise RequestError(
                f"the schema at {pointer!r}, keyword {keyword}, cannot be honoured by the grammar 'xgrammar': {why}, found "
                f"{json.dumps(node[keyword])[:80]}; change it, choose another grammar, or ask for an approximation",
                code="unsupported_schema",
            )
        self.approximations.append(f"{keyword} at {pointer} is {f'read as {instead}' if instead else 'ignored'}: {why}")
        value = node.pop(keyword)
        if instead:
            node.setdefault(instead, value)


def _never(value: Any) -> bool:
    return False


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
