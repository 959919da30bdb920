"""What emitters of containers have in common: where they write, how they ask for what is inside, how they share."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from sgframe_fsm.expressions.memoising import per_store
from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.leaves.literals import literal_expression
from sgframe_fsm.leaves.separators import Separators
from sgframe_fsm.schema.normal import Document
from sgframe_fsm.schema.shapes import Schema

Emitting: TypeAlias = Generator[Schema, Expr, Expr]
"""Yields the schema of a contained value, is sent its expression, and returns the container's: depth costs no stack."""


@dataclass(frozen=True)
class Context:
    """Where one document is written to."""

    store: Store
    separators: Separators
    document: Document

    def literal(self, value: object) -> Expr:
        """A value that is known in full."""
        return literal_expression(self.store, value, self.separators, plain=self.document.is_draft_4)


@per_store
def shared(store: Store, expression: Expr) -> Expr:
    """``expression`` behind a reference, so that what it is put into takes it apart only when it is followed."""
    if expression == NOTHING:
        return NOTHING
    name = f"shared {expression}"
    store.define(name, expression)
    return store.reference(name)
