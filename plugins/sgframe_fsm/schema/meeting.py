"""What unions of clauses have in common. Leaves out what is proven empty, as far as that is cheap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import NOTHING, Store
from sgframe_fsm.leaves.numbers import number_expression
from sgframe_fsm.leaves.strings import string_expression
from sgframe_fsm.schema.keywords import EVERYTHING, UNBOUND
from sgframe_fsm.schema.membership import Membership
from sgframe_fsm.schema.merging import merge
from sgframe_fsm.schema.naming import Naming
from sgframe_fsm.schema.shapes import (
    ANYTHING,
    NEVER,
    ArrayShape,
    Clause,
    Const,
    NumberShape,
    ObjectRules,
    Schema,
    StringShape,
    Terms,
    all_of,
    type_bit,
)

STEP = 16
"""What one case or one pair of clauses costs, in steps of the store's budget."""
DEEPEST_PROOF = 3
"""How many values within values a proof of emptiness looks at."""

Suppose = Callable[[Schema, tuple[Clause, ...]], tuple[Clause, ...]]
"""Gives the clauses of a schema that are within some clauses, or more."""


class Meeting:
    """Meets the clauses of one document. ``suppose`` serves to prove emptiness."""

    def __init__(self, store: Store, naming: Naming, membership: Membership, suppose: Suppose) -> None:
        self._store = store
        self._naming = naming
        self._membership = membership
        self._suppose = suppose
        self._depth = 0
        self._probed: dict[Terms, tuple[Clause, ...]] = {(): EVERYTHING}
        self._constants: dict[Schema, frozenset[Hashable] | None] = {}

    def meet(self, ones: Sequence[Clause], others: Sequence[Clause]) -> tuple[Clause, ...]:
        """The conjunction of two unions, without repetition."""
        if ones is EVERYTHING:
            return tuple(others)
        found: dict[Clause, None] = {}
        for one in ones:
            bit = type_bit(one)
            for other in others:
                if type_bit(other) == bit:
                    both = self._pair(one, other, UNBOUND[bit])
                    if both is not None:
                        found[both] = None
        return tuple(found)

    def overlap(self, one: Clause, other: Clause) -> bool:
        """Whether two clauses may have a value in common; False is proven."""
        bit = type_bit(one)
        if bit != type_bit(other):
            return False
        try:
            both = self._pair(one, other, UNBOUND[bit])
            return both is not None and self._inhabited(both)
        except Unsupported:
            return True

    def discriminators(self, clause: Clause) -> dict[str, frozenset[Hashable]]:
        """The required members of an object that may have a few constant values only, with the keys of these."""
        if not isinstance(clause, ObjectRules):
            return {}
        found: dict[str, frozenset[Hashable]] = {}
        for name in clause.required:
            schema = self._naming.member(clause.members, name)
            if schema not in self._constants:
                self._constants[schema] = self._keys(schema)
            keys = self._constants[schema]
            if keys is not None:
                found[name] = keys
        return found

    def _keys(self, schema: Schema) -> frozenset[Hashable] | None:
        try:
            clauses = self._probe(schema) if schema != ANYTHING and self._depth < DEEPEST_PROOF else ()
        except Unsupported:
            return None
        keys = frozenset(clause.key for clause in clauses if isinstance(clause, Const))
        return keys if keys and len(keys) == len(clauses) else None

    def _pair(self, one: Clause, other: Clause, unbound: Clause) -> Clause | None:
        if other is unbound or one is unbound:
            return one if other is unbound else other
        if isinstance(one, Const):
            return self._accepted(one, other)
        if isinstance(other, Const):
            return self._accepted(other, one)
        self.count()
        both = merge(one, other)
        if isinstance(both, ObjectRules) and isinstance(one, ObjectRules) and isinstance(other, ObjectRules):
            return both if self._members_possible(one, other, both.required) else None
        if isinstance(both, ArrayShape):
            return both if self._items_possible(both) else None
        return both

    def _accepted(self, constant: Const, clause: Clause) -> Clause | None:
        self._store.budget.spend(1)
        return constant if self._membership.accepts(clause, constant.value) else None

    def count(self) -> None:
        """Spend what looking at one case or one pair of clauses costs. Raises GrammarTooLarge when none is left."""
        self._store.budget.spend(STEP)

    def _members_possible(self, one: ObjectRules, other: ObjectRules, required: Sequence[str]) -> bool:
        """Whether each required member may exist, as far as the two rules together say more of it than each does."""
        for name in required:
            schemas = [self._naming.member(rules.members, name) for rules in (one, other)]
            if NEVER in schemas:
                return False
            if ANYTHING not in schemas and schemas[0] != schemas[1] and not self._possible(all_of(schemas)):
                return False
        return True

    def _items_possible(self, shape: ArrayShape) -> bool:
        return all(self._possible(schema) for schema in shape.prefix[: shape.min_items] if len(schema.terms) > 1) and (
            shape.min_items <= len(shape.prefix) or len(shape.items.terms) < 2 or self._possible(shape.items)
        )

    def _possible(self, schema: Schema) -> bool:
        """Whether a schema may have a value; False is proven."""
        if self._depth >= DEEPEST_PROOF:
            return True
        self._depth += 1
        try:
            return any(self._inhabited(clause) for clause in self._probe(schema))
        except Unsupported:
            return True
        finally:
            self._depth -= 1

    def _probe(self, schema: Schema) -> tuple[Clause, ...]:
        """The clauses of a schema or more. Its terms are taken in one by one: conjunctions with an equal start share it."""
        terms = schema.terms
        count = next((count for count in range(len(terms), 0, -1) if terms[:count] in self._probed), 0)
        clauses = self._probed[terms[:count]]
        for index in range(count, len(terms)):
            clauses = self._suppose(Schema(terms[index : index + 1]), clauses)
            self._probed[terms[: index + 1]] = clauses
        return clauses

    def _inhabited(self, clause: Clause) -> bool:
        """Whether a clause has a value, for those types where the parts alone do not tell."""
        if isinstance(clause, NumberShape) and (clause.spec.integer or clause.spec.multiples):
            return number_expression(self._store, clause.spec) != NOTHING
        if isinstance(clause, StringShape) and (
            clause.spec.patterns or clause.spec.not_patterns or clause.spec.formats
        ):
            return string_expression(self._store, clause.spec) != NOTHING
        return True
