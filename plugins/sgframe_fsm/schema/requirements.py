"""What a combining keyword demands: a union of conjunctions of subschemas, and its complement likewise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import TypeAlias

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.schema.shapes import Schema, all_of, negation, opposites

MOST_FAILURES = 1000
"""Most ways in which a union may fail."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of some schemas holds. ``$ref``, ``allOf`` and ``not`` are unions of one."""

    alternatives: tuple[Schema, ...]

    def opposite(self) -> tuple[Schema, ...]:
        """Of each schema a term does not hold."""
        failing = [opposites(schema) for schema in self.alternatives]
        if prod(map(len, failing)) > MOST_FAILURES:
            raise GrammarTooLarge(
                f"a union below 'not' or 'oneOf' can fail in more than {MOST_FAILURES} ways; simplify it"
            )
        return tuple(map(all_of, product(*failing)))


@dataclass(frozen=True, slots=True)
class OneOf:
    """Exactly one holds."""

    alternatives: tuple[Schema, ...]

    def opposite(self) -> tuple[Schema, ...]:
        """None holds, or two do."""
        none = all_of(negation(schema) for schema in self.alternatives)
        return (none, *(all_of(pair) for pair in combinations(self.alternatives, 2)))


@dataclass(frozen=True, slots=True)
class Cases:
    """Each value meets just one of some conditions; the consequence of that one holds. Consequences are single terms."""

    cases: tuple[tuple[Schema, Schema], ...]

    @property
    def alternatives(self) -> tuple[Schema, ...]:
        return tuple(all_of(case) for case in self.cases)

    def opposite(self) -> tuple[Schema, ...]:
        """The consequence of the condition that is met does not hold."""
        return tuple(all_of((condition, negation(consequence))) for condition, consequence in self.cases)


Requirement: TypeAlias = AnyOf | OneOf | Cases
