"""The subschemas of a document: what the keywords of each one demand, read when it is first asked for.

Owns references between them. Does not know how demands are met together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sgframe_fsm.errors import InvalidSchema, Unsupported, within
from sgframe_fsm.schema.evaluation import unevaluated
from sgframe_fsm.schema.keywords import ASSERTING, clause_of, full, inexpressible_format, types_in
from sgframe_fsm.schema.references import References, step
from sgframe_fsm.schema.requirements import AnyOf, Cases, OneOf, Requirement
from sgframe_fsm.schema.shapes import (
    ANYTHING,
    NEVER,
    Clause,
    Const,
    Leaf,
    Members,
    NumberShape,
    ObjectRules,
    Place,
    Schema,
    negation,
)
from sgframe_fsm.schema.values import ALL, OBJECT, STRING, identity
from sgframe_fsm.schema.wellformed import check

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DEPENDENT = ("dependencies", "dependentRequired", "dependentSchemas")
COMBINING = frozenset((*REFERENCES, *DEPENDENT, "allOf", "anyOf", "oneOf", "not", "if"))
MEANINGFUL = ASSERTING | COMBINING | {"unevaluatedItems", "unevaluatedProperties"}


class Subschemas:
    """Reads one document.

    Args:
        refuse: is told of what cannot be honoured, and raises it unless it may be left out; ``loose`` are the schema objects
            of which something was left out.
        try_pattern: raises InvalidRegex or UnsupportedRegex for a pattern that cannot be compiled.
    """

    def __init__(
        self, document: Any, refuse: Callable[[Unsupported], None], try_pattern: Callable[[str], None]
    ) -> None:
        self._refuse = refuse
        self._try_pattern = try_pattern
        self.loose: set[str] = set()
        self._references = References(document)
        self.is_draft_4 = self._references.is_draft_4
        self._nodes: dict[str, dict[str, Any]] = {}
        self._clauses: dict[tuple[str, int], tuple[tuple[Clause, ...], ...]] = {}
        self._requirements: dict[str, tuple[list[Requirement], list[Requirement]]] = {}
        self.root = self.at("", document)

    def at(self, pointer: str, node: Any) -> Schema:
        """The schema that stands at ``pointer``. Where it only refers to another, it is that other."""
        passed: set[str] = set()
        while isinstance(node, dict) and "$ref" in node and len(MEANINGFUL.intersection(node)) == 1:
            if pointer in passed:
                raise InvalidSchema(pointer, "$ref", "it leads back to itself and describes nothing on the way")
            passed.add(pointer)
            self._references.at[pointer] = node
            target = self._resolve(pointer, "$ref")
            if target is None:
                break
            pointer, node = target, self._references.at[target]
        if isinstance(node, bool):
            return ANYTHING if node else NEVER
        if not isinstance(node, dict):
            raise InvalidSchema(pointer, "", f"a schema is an object, true or false; found {node!r}")
        if MEANINGFUL.isdisjoint(node):
            return ANYTHING
        self._references.at[pointer] = node
        return Schema((Place(pointer),))

    def clauses(self, pointer: str, types: int) -> tuple[tuple[Clause, ...], ...]:
        """What its own keywords say of values of some types: unions, all of which hold."""
        key = (pointer, types)
        if key not in self._clauses:
            self._clauses[key] = tuple(self._read_clauses(pointer, self.node(pointer), types))
        return self._clauses[key]

    def _read_clauses(self, pointer: str, node: dict[str, Any], types: int) -> Iterator[tuple[Clause, ...]]:
        types &= types_in(node)
        reason = inexpressible_format(node) if types & STRING else None
        if reason is not None:
            why = f"{node['format']!r} cannot be honoured: {reason}; leave it out"
            self.leave_out(pointer, Unsupported(pointer, "format", why))
        bits = (1 << place for place in range(types.bit_length()))
        clauses = (clause_of(bit, pointer, node, self.at) for bit in bits if bit & types)
        yield tuple(map(_plain, clauses) if self.is_draft_4 else clauses)
        if "const" in node:
            yield (Const(node["const"], identity(node["const"]), pointer),)
        if "enum" in node:
            values = [Const(value, identity(value), pointer) for value in node["enum"]]
            yield tuple(dict.fromkeys(values))

    def leave_out(self, pointer: str, error: Unsupported) -> None:
        """Let the schema object at ``pointer`` demand less than it says, if that was asked for; else raise ``error``."""
        self._refuse(error)
        self.loose.add(pointer)

    def requirements(self, pointer: str) -> tuple[list[Requirement], list[Requirement]]:
        """What its combining keywords demand: those written before its ``properties``, and the others. So properties come in
        the order of the text, whichever keyword brings them."""
        if pointer not in self._requirements:
            before, after = self._combined(pointer)
            self._requirements[pointer] = before, [*after, *unevaluated(self, pointer, self.node(pointer))]
        return self._requirements[pointer]

    def combined(self, pointer: str) -> list[Requirement]:
        """The requirements but those of ``unevaluatedProperties`` and ``unevaluatedItems``."""
        before, after = self._combined(pointer)
        return before + after

    def _combined(self, pointer: str) -> tuple[list[Requirement], list[Requirement]]:
        node = self.node(pointer)
        before: list[Requirement] = []
        after: list[Requirement] = []
        current = before if "properties" in node else after
        for keyword in node:
            if keyword == "properties":
                current = after
            elif keyword in COMBINING:
                current.extend(self._read(keyword, pointer, node))
        return before, after

    def node(self, pointer: str) -> dict[str, Any]:
        """The schema object at a pointer that was met before: its keywords are well formed, its patterns compile."""
        if pointer not in self._nodes:
            node = self._references.at[pointer]
            check(pointer, node)
            self._nodes[pointer] = self._with_patterns_tried(pointer, node)
        return self._nodes[pointer]

    def _with_patterns_tried(self, pointer: str, node: dict[str, Any]) -> dict[str, Any]:
        """``node`` without the patterns that cannot be honoured. Nobody knows which names those match that stand in
        ``patternProperties``, so ``additionalProperties`` goes with them."""
        types = types_in(node)
        if "pattern" in node and types & STRING and not self._is_honoured(pointer, "pattern", node["pattern"]):
            node = {keyword: value for keyword, value in node.items() if keyword != "pattern"}
        if "patternProperties" in node and types & OBJECT:
            named = node["patternProperties"]
            kept = {
                name: value for name, value in named.items() if self._is_honoured(pointer, "patternProperties", name)
            }
            if len(kept) < len(named):
                node = {**node, "patternProperties": kept, "additionalProperties": True}
        return node

    def _is_honoured(self, pointer: str, keyword: str, pattern: str) -> bool:
        try:
            with within(pointer, keyword):
                self._try_pattern(pattern)
        except Unsupported as error:
            self.leave_out(pointer, error)
            return False
        return True

    def _resolve(self, pointer: str, keyword: str) -> str | None:
        """Where a reference leads; None if it leads out of the document, and that may be left out."""
        try:
            return self._references.resolve(pointer, keyword)
        except Unsupported as error:
            self.leave_out(pointer, error)
            return None

    def _read(self, keyword: str, pointer: str, node: dict[str, Any]) -> Iterator[Requirement]:
        value = node[keyword]
        if keyword in REFERENCES:
            target = self._resolve(pointer, keyword)
            if target is not None:
                yield AnyOf((self.at(target, self._references.at[target]),))
        elif keyword == "not":
            yield AnyOf((negation(self.at(step(pointer, keyword), value)),))
        elif keyword == "if":
            yield from self._conditional(pointer, node)
        elif keyword in DEPENDENT:
            yield from (self._dependent(step(pointer, keyword, name), name, needed) for name, needed in value.items())
        else:
            yield from self._applied(keyword, pointer, value)

    def _applied(self, keyword: str, pointer: str, value: list[Any]) -> Iterator[Requirement]:
        parts = tuple(self.at(step(pointer, keyword, str(index)), part) for index, part in enumerate(value))
        if keyword == "allOf":
            yield from (AnyOf((part,)) for part in parts)
        elif keyword == "anyOf" or len(parts) == 1:
            yield AnyOf(parts)
        else:
            yield OneOf(parts)

    def _conditional(self, pointer: str, node: dict[str, Any]) -> Iterator[Requirement]:
        """``if``/``then``/``else``; without the latter two it demands nothing."""
        condition = self.at(step(pointer, "if"), node["if"])
        then, otherwise = (
            self.at(step(pointer, keyword), node[keyword]) if keyword in node else ANYTHING
            for keyword in ("then", "else")
        )
        if then != ANYTHING or otherwise != ANYTHING:
            yield Cases(((condition, then), (negation(condition), otherwise)))

    def _dependent(self, pointer: str, name: str, needed: Any) -> Requirement:
        """What must hold of an object that has a member ``name``: more names, or a schema."""
        absent = Schema((Leaf((*full(ALL - OBJECT), ObjectRules((Members(((name, NEVER),)),)))),))
        present = Schema((Leaf((ObjectRules(required=(name,)),)),))
        if isinstance(needed, list):
            consequence = Schema((Leaf((ObjectRules(required=tuple(needed)),)),))
        else:
            consequence = self.at(pointer, needed)
        return Cases(((absent, ANYTHING), (present, consequence)))


def _plain(clause: Clause) -> Clause:
    """As draft 4 has it: an integer is written without a point and without an exponent."""
    if isinstance(clause, NumberShape) and clause.spec.integer:
        return replace(clause, spec=replace(clause.spec, plain=True))
    return clause
