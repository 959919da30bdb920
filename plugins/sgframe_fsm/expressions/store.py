"""The store: every question that others ask about expressions over bytes.

It builds them (algebra), follows them (derivatives), and here decides about them. Knows nothing of JSON, regexes or tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.budget import COMPILE_STEPS
from sgframe_fsm.expressions.emptiness import Emptiness
from sgframe_fsm.expressions.nodes import (
    DEAD,
    EMPTY,
    EVERYTHING,
    IRREGULAR,
    LEXEME,
    NOTHING,
    OPEN,
    SEQUENCE,
    UNION,
    UNSURE,
    Expr,
)
from sgframe_fsm.expressions.partitions import ALL_BYTES, members_of

__all__ = ["EMPTY", "EVERYTHING", "NOTHING", "Expr", "GrammarTooLarge", "Store"]


class Store(Emptiness):
    """Expressions over bytes, hash-consed: within a store equal ids mean equal expressions.

    ``budget`` is how many steps (new expressions, derivations, states looked at) may be taken before GrammarTooLarge is
    raised; ``store.budget.refill()`` allows as many again. ``alphabet``: the bytes there are, as a set; what cannot do
    without another one matches nothing. Complements have all bytes nevertheless, until they are intersected. ``memory``
    is for what builders want to find again (see memoising).
    """

    def __init__(self, budget: int = COMPILE_STEPS, alphabet: int = ALL_BYTES) -> None:
        super().__init__(budget)
        self.alphabet = alphabet
        self._missing = bytes(members_of(ALL_BYTES ^ alphabet))
        self.memory: dict[object, dict[Any, Any]] = {}

    def copy(self, budget: int = COMPILE_STEPS) -> Store:
        """A store with all that is in this one, under the same ids. What either makes from now on, the other knows
        nothing of."""
        twin = Store(budget, self.alphabet)
        tables = {name: table.copy() for name, table in vars(self).items() if hasattr(table, "copy")}
        vars(twin).update(tables)
        twin.memory = {builder: known.copy() for builder, known in self.memory.items()}
        return twin

    def intersection(self, parts: Iterable[Expr]) -> Expr:
        """What all parts match; NOTHING if there is no such string. Regular parts only."""
        return self._pruned(self._intersect(self._regular(parts)))

    def complement(self, part: Expr) -> Expr:
        """Every string of bytes that ``part``, which is regular, does not match."""
        return self._pruned(self._complement(*self._regular((part,))))

    def is_empty(self, expression: Expr) -> bool:
        """Whether the expression matches nothing at all."""
        if self._facts[expression] & OPEN:
            self._settle(expression)
        return bool(self._facts[expression] & DEAD)

    def disjoint(self, left: Expr, right: Expr) -> bool:
        """Whether no string is matched by both, which are regular."""
        return not self._is_alive(self._intersect(self._regular((left, right))))

    def includes(self, whole: Expr, part: Expr) -> bool:
        """Whether ``whole`` matches all that ``part`` does; both regular."""
        self._regular((whole, part))
        return not self._is_alive(self._intersect((part, self._complement(whole))))

    def is_regular(self, expression: Expr) -> bool:
        """Whether there is no reference in it."""
        return not self._facts[expression] & IRREGULAR

    def front(self, expression: Expr) -> tuple[Expr, Expr]:
        """What a state stands in, and what follows that; EMPTY if nothing does."""
        node = self._nodes[expression]
        return (node[1], node[2]) if node[0] == SEQUENCE else (expression, EMPTY)

    def head(self, expression: Expr) -> tuple[Expr | None, Expr]:
        """The lexeme that a state stands in, as much as is left of it, and what follows it; None and the state if it stands
        in none."""
        first, rest = self.front(expression)
        return (first, rest) if self._nodes[first][0] == LEXEME else (None, expression)

    def base_of(self, lexeme: Expr) -> Expr | None:
        """The lexeme that matches all that ``lexeme`` does and little more, as far as both were followed; None if it has
        none."""
        base = self._nodes[lexeme][2]
        return None if base == NOTHING else self.lexeme(base)

    def alternatives(self, expression: Expr) -> tuple[Expr, ...]:
        """The parts of a union, else the expression alone."""
        node = self._nodes[expression]
        return node[1] if node[0] == UNION else (expression,)

    def _pruned(self, expression: Expr) -> Expr:
        if self._facts[expression] & UNSURE:
            self._require_shallow(expression)
        return expression if self._is_alive(expression) else NOTHING

    def _regular(self, parts: Iterable[Expr]) -> list[Expr]:
        parts = list(parts)
        if not all(map(self.is_regular, parts)):
            raise ValueError("only expressions without references have an intersection or a complement")
        return parts
