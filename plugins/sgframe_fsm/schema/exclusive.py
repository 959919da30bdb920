"""``oneOf`` to the letter: what is proven disjoint is a union; of what may overlap, each branch less the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.schema.meeting import Meeting
from sgframe_fsm.schema.shapes import Clause, Const, Schema, negation, type_bit

Solve = Callable[[Schema, tuple[Clause, ...]], tuple[Clause, ...]]
"""The clauses of a schema that are also in some given clauses."""

Marks: TypeAlias = dict[str, frozenset[Hashable]]


class Exclusive:
    """Works for one document. ``refuse`` is told of what cannot be separated, and raises it unless it may be let through."""

    def __init__(self, meeting: Meeting, refuse: Callable[[Unsupported], None]) -> None:
        self._meeting = meeting
        self._refuse = refuse

    def exactly_one(
        self, alternatives: tuple[Schema, ...], pointer: str, clauses: tuple[Clause, ...], solve: Solve
    ) -> tuple[Clause, ...]:
        """The values in ``clauses`` that are of exactly one alternative of the ``oneOf`` at ``pointer``."""
        branches = [solve(schema, clauses) for schema in alternatives]
        kept: dict[Clause, None] = {}
        rivals = _Rivals(branches, self._meeting)
        for index, branch in enumerate(branches):
            for clause in branch:
                against = rivals.of(index, clause)
                kept |= dict.fromkeys(
                    self._without(alternatives, pointer, clause, index, against, solve) if against else (clause,)
                )
        return tuple(kept)

    def _without(
        self,
        alternatives: tuple[Schema, ...],
        pointer: str,
        clause: Clause,
        index: int,
        rivals: Sequence[int],
        solve: Solve,
    ) -> tuple[Clause, ...]:
        """What of a clause of one branch is in no rival."""
        left: tuple[Clause, ...] = (clause,)
        for rival in rivals:
            try:
                left = solve(negation(alternatives[rival]), left)
            except Unsupported as error:
                reason = (
                    f"the schemas {index} and {rival} may both hold of one value, and cannot be told apart ({error}); "
                )
                remedy = "make them differ by a required property with a const, or use anyOf"
                self._refuse(Unsupported(pointer, "oneOf", reason + remedy))
        return left


class _Rivals:
    """Which branches a clause of one branch may share values with. Constants, and objects with a member that has different
    constants in each (a discriminator), are told apart without being met."""

    def __init__(self, branches: Sequence[Sequence[Clause]], meeting: Meeting) -> None:
        self._meeting = meeting
        self._constants: dict[Hashable, set[int]] = defaultdict(set)
        self._others: dict[int, list[tuple[int, Clause]]] = defaultdict(list)
        self._by_type: dict[int, list[tuple[int, Const]]] = defaultdict(list)
        self._marks: dict[Clause, Marks] = {}
        for index, branch in enumerate(branches):
            for clause in branch:
                if isinstance(clause, Const):
                    self._constants[clause.key].add(index)
                    self._by_type[type_bit(clause)].append((index, clause))
                else:
                    self._others[type_bit(clause)].append((index, clause))
                    self._marks[clause] = meeting.discriminators(clause)

    def of(self, branch: int, clause: Clause) -> list[int]:
        """The branches other than ``branch`` that may overlap with ``clause``, in order."""
        bit = type_bit(clause)
        if isinstance(clause, Const):
            found = set(self._constants[clause.key])
        else:
            found = {index for index, constant in self._by_type[bit] if self._meeting.overlap(clause, constant)}
        marks = self._marks.get(clause, {})
        for index, other in self._others[bit]:
            known = index == branch or index in found or _apart(marks, self._marks[other])
            if not known and self._meeting.overlap(clause, other):
                found.add(index)
        return sorted(found - {branch})


def _apart(one: Marks, other: Marks) -> bool:
    """Whether a member that both require has constants here that it has not there."""
    return any(name in other and keys.isdisjoint(other[name]) for name, keys in one.items())
