"""Whether a value that stands in a schema (``const``, ``enum``, a property name) is of another schema.

Decided on the value itself, keyword by keyword, so that ``not`` and ``oneOf`` need no complement.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.strings import admits
from sgframe_fsm.schema.naming import Naming
from sgframe_fsm.schema.requirements import OneOf, Requirement
from sgframe_fsm.schema.shapes import (
    ArrayShape,
    Clause,
    Const,
    Contains,
    Exists,
    Leaf,
    NumberShape,
    ObjectRules,
    Place,
    Schema,
    StringShape,
    type_bit,
)
from sgframe_fsm.schema.subschemas import Subschemas
from sgframe_fsm.schema.values import identity, type_of

DEEPEST = 60
"""Most schemas within schemas that one check passes through."""


class Membership:
    """Decides for one document. Where a schema object demands less than it says, what depends on it may hold."""

    def __init__(self, subschemas: Subschemas, naming: Naming, store: Store) -> None:
        self._subschemas = subschemas
        self._naming = naming
        self._store = store
        self._depth = 0
        self._loose = 0

    def holds(self, schema: Schema, value: Any) -> bool:
        """Whether ``value`` is of ``schema``."""
        if self._depth > DEEPEST:
            raise GrammarTooLarge("a constant in the schema is checked against too deep a schema; simplify either")
        self._depth += 1
        try:
            return all(self._holds_term(term, value) for term in schema.terms)
        finally:
            self._depth -= 1

    def _holds_term(self, term: Place | Leaf, value: Any) -> bool:
        met = self._loose
        held = self._term(term, value)
        if not term.negated:
            return held
        return not held or self._loose > met  # what demands less than it says may not hold after all

    def _term(self, term: Place | Leaf, value: Any) -> bool:
        if isinstance(term, Leaf):
            return any(self.accepts(clause, value) for clause in term.clauses)
        unions = self._subschemas.clauses(term.pointer, type_of(value))
        before, after = self._subschemas.requirements(term.pointer)
        self._loose += term.pointer in self._subschemas.loose
        return all(any(self.accepts(clause, value) for clause in union) for union in unions) and all(
            self._fulfils(requirement, value) for requirement in (*before, *after)
        )

    def _fulfils(self, requirement: Requirement, value: Any) -> bool:
        if isinstance(requirement, OneOf):
            met = self._loose
            held = sum(self.holds(schema, value) for schema in requirement.alternatives)
            return held == 1 or (held > 1 and self._loose > met)
        return any(self.holds(schema, value) for schema in requirement.alternatives)

    def accepts(self, clause: Clause, value: Any) -> bool:
        """Whether ``value`` is in ``clause``."""
        if type_bit(clause) != type_of(value):
            return False
        held = True
        match clause:
            case Const():
                held = identity(value) == clause.key
            case NumberShape(spec):
                held = spec.admits(Decimal(value))
            case StringShape(spec):
                held = admits(self._store, spec, value)
            case ArrayShape():
                held = self._array(clause, value)
            case ObjectRules():
                held = self._object(clause, value)
        return held

    def _array(self, shape: ArrayShape, items: list[Any]) -> bool:
        if not shape.min_items <= len(items) <= (len(items) if shape.max_items is None else shape.max_items):
            return False
        if shape.unique and len({identity(item) for item in items}) < len(items):
            return False
        schemas = shape.prefix + (shape.items,) * (len(items) - len(shape.prefix))
        return all(map(self.holds, schemas, items)) and all(self._contains(each, items) for each in shape.contains)

    def _contains(self, contains: Contains, items: list[Any]) -> bool:
        count = sum(self.holds(contains.schema, item) for item in items[contains.start :])
        return count >= contains.least and (contains.most is None or count <= contains.most)

    def _object(self, rules: ObjectRules, members: dict[str, Any]) -> bool:
        count = len(members)
        if not rules.min_properties <= count <= (count if rules.max_properties is None else rules.max_properties):
            return False
        return (
            all(name in members for name in rules.required)
            and all(self.holds(self._naming.member(rules.members, name), value) for name, value in members.items())
            and all(self.holds(rules.names, name) for name in members)
            and all(self._exists(exists, members) for exists in rules.some)
        )

    def _exists(self, exists: Exists, members: dict[str, Any]) -> bool:
        return any(self.holds(exists.name, name) and self.holds(exists.value, value) for name, value in members.items())
