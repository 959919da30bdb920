"""Where subschemas stand in a document: JSON pointers, ``$id``, anchors and what a reference points to.

Knows where schemas nest, but nothing of what a keyword demands.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urljoin

from sgframe_fsm.errors import InvalidSchema, Unsupported

SINGLE = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""Keywords whose value is a schema."""
LISTS = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
"""Keywords whose value is a list of schemas."""
MAPS = frozenset(["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"])
"""Keywords whose value maps names to schemas."""


def step(pointer: str, *tokens: str) -> str:
    """The pointer extended by reference tokens (RFC 6901)."""
    for token in tokens:
        pointer += "/" + (token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token)
    return pointer


def tokens_of(pointer: str) -> list[str]:
    """The reference tokens of a pointer."""
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


DIALECTS = ("://json-schema.org/", "://spec.openapis.org/oas/")
"""Whose dialects are read: JSON Schema's own drafts, and OpenAPI 3.1, which is draft 2020-12 with annotations."""


class References:
    """Resolves references within one document. ``at[pointer]`` is the value at each pointer met so far; ``is_draft_4``:
    whether the document says that it is of that draft or the one before."""

    def __init__(self, document: Any) -> None:
        self.at: dict[str, Any] = {"": document}
        dialect = str(document.get("$schema", "")) if isinstance(document, dict) else ""
        if dialect and not any(known in dialect for known in DIALECTS):
            reason = (
                f"the dialect {dialect!r} is unknown, its keywords may mean anything; leave it out for draft 2020-12"
            )
            raise Unsupported("", "$schema", reason)
        self.is_draft_4 = "draft-04" in dialect or "draft-03" in dialect
        self._id = "id" if self.is_draft_4 else "$id"

    def resolve(self, place: str, keyword: str) -> str:
        """The pointer that the reference in ``keyword`` of the schema at ``place`` means.

        Raises InvalidSchema where it points to nothing, Unsupported where it leaves the document or depends on the caller.
        """
        reference = self.at[place][keyword]
        if not isinstance(reference, str):
            raise InvalidSchema(place, keyword, f"a reference is a string; found {reference!r}")
        uri, _, fragment = reference.partition("#")
        resource = self._resource(place, keyword, uri)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            resource, fragment = self._anchor(place, keyword, resource, fragment), ""
        elif keyword == "$recursiveRef" and len(self._resources) > 1:
            raise Unsupported(place, keyword, "it depends on the schema that refers here; use $ref")
        return self._walk(place, keyword, resource, fragment)

    def _resource(self, place: str, keyword: str, uri: str) -> str:
        """The pointer of the resource (the document, or a part with its own ``$id``) that ``uri`` means at ``place``."""
        enclosing = self._enclosing(place)
        if not uri:
            return enclosing
        target = urljoin(self._bases.get(enclosing, ""), uri)
        if target not in self._resources:
            reason = f"{target!r} is outside of this schema, and nothing is fetched; put that schema under $defs"
            raise Unsupported(place, keyword, reason)
        return self._resources[target]

    def _enclosing(self, place: str) -> str:
        node, found, pointer = self.at[""], "", ""
        for token in tokens_of(place):
            node = node[int(token)] if isinstance(node, list) else node[token]
            pointer = step(pointer, token)
            if isinstance(node, dict) and isinstance(node.get(self._id), str) and pointer in self._bases:
                found = pointer
        return found

    def _walk(self, place: str, keyword: str, resource: str, fragment: str) -> str:
        node, pointer = self.at[""], ""
        for token in tokens_of(resource + fragment):
            if isinstance(node, dict) and token in node:
                node = node[token]
            elif isinstance(node, list) and token.isdecimal() and int(token) < len(node):
                node = node[int(token)]
            else:
                reference = self.at[place][keyword]
                raise InvalidSchema(
                    place, keyword, f"{reference!r} points to nothing: there is no {token!r} in #{pointer}"
                )
            pointer = step(pointer, token)
        self.at[pointer] = node
        return pointer

    def _anchor(self, place: str, keyword: str, resource: str, name: str) -> str:
        pointer = self._anchors.get((resource, name))
        if pointer is None:
            raise InvalidSchema(place, keyword, f"there is no anchor {name!r}")
        if (
            keyword == "$dynamicRef"
            and (resource, name) in self._dynamic
            and sum(name == of for _, of in self._dynamic) > 1
        ):
            raise Unsupported(
                place, keyword, f"which {name!r} is meant depends on the schema that refers here; use $ref"
            )
        return pointer

    @cached_property
    def _bases(self) -> dict[str, str]:
        """The base URI of each resource, by pointer."""
        return self._index[0]

    @cached_property
    def _resources(self) -> dict[str, str]:
        return {uri: pointer for pointer, uri in self._bases.items()}

    @cached_property
    def _anchors(self) -> dict[tuple[str, str], str]:
        """Pointers by resource and anchor."""
        return self._index[1]

    @cached_property
    def _dynamic(self) -> set[tuple[str, str]]:
        return self._index[2]

    @cached_property
    def _index(self) -> tuple[dict[str, str], dict[tuple[str, str], str], set[tuple[str, str]]]:
        bases: dict[str, str] = {"": ""}
        anchors: dict[tuple[str, str], str] = {}
        dynamic: set[tuple[str, str]] = set()
        stack = [("", self.at[""], "")]
        while stack:
            pointer, node, resource = stack.pop()
            if not isinstance(node, dict):
                continue
            name = node.get(self._id)
            if isinstance(name, str) and name.startswith("#"):
                anchors[resource, name[1:]] = pointer
            elif isinstance(name, str):
                bases[pointer] = urljoin(bases[resource], name.partition("#")[0])
                resource = pointer
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    anchors[resource, node[keyword]] = pointer
            if isinstance(node.get("$dynamicAnchor"), str):
                dynamic.add((resource, node["$dynamicAnchor"]))
            stack.extend((below, child, resource) for below, child in subschemas(pointer, node))
        return bases, anchors, dynamic


def subschemas(pointer: str, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The subschemas directly below a schema object, each with its pointer."""
    for keyword, value in node.items():
        if keyword in MAPS and isinstance(value, dict):
            yield from ((step(pointer, keyword, name), child) for name, child in value.items())
        elif keyword in LISTS and isinstance(value, list):
            yield from ((step(pointer, keyword, str(index)), child) for index, child in enumerate(value))
        elif keyword in SINGLE:
            yield step(pointer, keyword), value
