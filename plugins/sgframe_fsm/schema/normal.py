"""A JSON schema document and the normal form of its subschemas: what the rest of the compiler asks for."""

from __future__ import annotations

from functools import partial
from typing import Any

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.strings import try_pattern
from sgframe_fsm.schema.layout import Layout
from sgframe_fsm.schema.meeting import Meeting
from sgframe_fsm.schema.membership import Membership
from sgframe_fsm.schema.naming import Naming
from sgframe_fsm.schema.search import Search, State
from sgframe_fsm.schema.shapes import Clause, ObjectRules, Schema, Shape
from sgframe_fsm.schema.subschemas import Subschemas


class Document:
    """One schema document, draft 2020-12 (and what draft 4 to 2019-09 spelled otherwise).

    Args:
        schema: the parsed JSON, non-integer numbers as Decimal.
        store: where patterns and leaves are built to decide whether two of them overlap.
        approximate: take what cannot be honoured by something that allows more, and say so in ``approximations``.

    Raises InvalidSchema, Unsupported or GrammarTooLarge, here and in ``shapes``.
    """

    def __init__(self, schema: object, store: Store, *, approximate: bool = False) -> None:
        self.approximations: list[str] = []
        self._approximate = approximate
        self._subschemas = Subschemas(schema, self.refuse, partial(try_pattern, store))
        naming = Naming(store)
        self._membership = Membership(self._subschemas, naming, store)
        meeting = Meeting(store, naming, self._membership, self._supposed)
        self._search = Search(self._subschemas, meeting, self.refuse, exact=True)
        self._supposing = Search(self._subschemas, meeting, lambda _: None, exact=False)
        self._layout = Layout(naming, self._membership, self._clauses_of)
        self._solutions: dict[Schema, tuple[Clause, ...]] = {}
        self._shapes: dict[Schema, tuple[Shape, ...]] = {}
        self.root = self._subschemas.root
        self.is_draft_4 = self._subschemas.is_draft_4

    def refuse(self, error: Unsupported) -> None:
        """Raise ``error``, unless approximations were asked for: then it is noted, and the caller allows more."""
        if not self._approximate:
            raise error
        if error.report not in self.approximations:
            self.approximations.append(error.report)

    def shapes(self, schema: Schema) -> tuple[Shape, ...]:
        """The normal form: a union, without repetition; empty when it is plain that no value fits. Memoised."""
        if schema not in self._shapes:
            found: dict[Shape, None] = {}
            for clause in self._clauses_of(schema):
                found |= dict.fromkeys(self._layout.shapes(clause) if isinstance(clause, ObjectRules) else (clause,))
            self._shapes[schema] = tuple(found)
        return self._shapes[schema]

    def holds(self, schema: Schema, value: Any) -> bool:
        """Whether a parsed JSON value is of a schema."""
        return self._membership.holds(schema, value)

    def _clauses_of(self, schema: Schema) -> tuple[Clause, ...]:
        if schema not in self._solutions:
            self._solutions[schema] = self._search.solve(schema)
        return self._solutions[schema]

    def _supposed(self, schema: Schema, clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
        """The clauses of ``schema`` within some, or more."""
        return self._supposing.solve(schema, State(clauses))
