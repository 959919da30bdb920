"""The search for a normal form: how demands are met together, case by case.

A conjunction is a set of states. A state holds clauses that fulfil all that was taken in so far, and what is still open;
meeting a union splits the state. Exactly-one comes last, when most is known of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from sgframe_fsm.errors import GrammarTooLarge, InvalidSchema, Unsupported, place
from sgframe_fsm.schema.exclusive import Exclusive
from sgframe_fsm.schema.keywords import EVERYTHING, full
from sgframe_fsm.schema.meeting import Meeting
from sgframe_fsm.schema.negation import complement
from sgframe_fsm.schema.requirements import AnyOf, Cases, OneOf
from sgframe_fsm.schema.shapes import ANYTHING, Clause, Leaf, Place, Schema, type_bit
from sgframe_fsm.schema.subschemas import Subschemas
from sgframe_fsm.schema.values import ALL

DEEPEST = 100
"""Most subschemas within each other that all describe one value (allOf, anyOf, references …)."""


@dataclass(frozen=True, slots=True)
class Trail:
    """The subschemas that led to one and describe the same value, innermost first."""

    pointer: str
    outer: Trail | None
    length: int

    def enter(self, pointer: str) -> Trail:
        """The trail one further in. Raises InvalidSchema where it leads in a circle."""
        trail: Trail | None = self
        while trail is not None:
            if trail.pointer == pointer:
                raise InvalidSchema(pointer, "", "it leads back to itself for the same value, so it describes nothing")
            trail = trail.outer
        if self.length >= DEEPEST:
            raise GrammarTooLarge(
                f"{place(pointer)} is more than {DEEPEST} subschemas deep for one value; flatten the schema"
            )
        return Trail(pointer, self, self.length + 1)


START = Trail(" no pointer", None, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """An open choice. ``first``: it stands before the properties beside it, so what it says of an object comes first."""

    alternatives: tuple[Schema, ...]
    trail: Trail
    first: bool


@dataclass(frozen=True, slots=True)
class State:
    """One case. ``met`` was taken in; ``unions`` and ``exclusives`` are open."""

    clauses: tuple[Clause, ...] = EVERYTHING
    met: frozenset[Place] = frozenset()
    unions: tuple[Choice, ...] = ()
    exclusives: tuple[Choice, ...] = ()


INITIAL = State()


@dataclass(frozen=True, slots=True)
class _Own:
    """What the keywords of one schema object say by themselves."""

    pointer: str


_Item: TypeAlias = Place | Leaf | AnyOf | OneOf | Cases | _Own


class Search:
    """Searches one document.

    Args:
        refuse: is told of what cannot be described, and raises it unless it may be let through.
        exact: whether of ``oneOf`` exactly one holds; else at least one, which is quicker and enough to prove emptiness.
    """

    def __init__(
        self, subschemas: Subschemas, meeting: Meeting, refuse: Callable[[Unsupported], None], *, exact: bool
    ) -> None:
        self._subschemas = subschemas
        self._meeting = meeting
        self._exclusive = Exclusive(meeting, refuse)
        self._refuse = refuse
        self._exact = exact

    def solve(
        self, schema: Schema, state: State = INITIAL, trail: Trail = START, first: bool = False
    ) -> tuple[Clause, ...]:
        """The clauses of ``schema`` within those of ``state``, of which nothing is open. No clause twice. With ``first``,
        what the schema says of an object comes before what the state says."""
        if state is INITIAL and len(schema.terms) == 1:
            plain = self._plain(schema.terms[0])
            if plain is not None:
                return plain
        done: dict[Clause, None] = {}
        cases = [self._take(state, schema, trail, first)]
        while cases:
            case = cases.pop()
            if case is None:
                continue
            if case.unions:
                choice, *unions = case.unions
                rest = replace(case, unions=tuple(unions))
                cases.extend(
                    self._take(rest, schema, choice.trail, choice.first) for schema in reversed(choice.alternatives)
                )
            elif case.exclusives:
                cases.append(self._separate(case))
            else:
                done |= dict.fromkeys(case.clauses)
        return tuple(done)

    def _plain(self, term: Place | Leaf) -> tuple[Clause, ...] | None:
        """The clauses of a schema object without combining keywords: most are such, and need no search."""
        if isinstance(term, Leaf) or term.negated or any(self._subschemas.requirements(term.pointer)):
            return None
        clauses = EVERYTHING
        for union in self._subschemas.clauses(term.pointer, ALL):
            clauses = self._meeting.meet(clauses, union)
        return clauses

    def _separate(self, case: State) -> State | None:
        """The case with its first exactly-one fulfilled."""
        choice, *exclusives = case.exclusives

        def solve(schema: Schema, clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
            return self.solve(schema, State(clauses, case.met), choice.trail, choice.first)

        clauses = self._exclusive.exactly_one(choice.alternatives, choice.trail.pointer, case.clauses, solve)
        return replace(case, clauses=clauses, exclusives=tuple(exclusives)) if clauses else None

    def _take(self, state: State, schema: Schema, trail: Trail, first: bool) -> State | None:
        """The state once ``schema`` was taken in, as far as no choice is open; None when nothing is left."""
        self._meeting.count()
        clauses = full(_types(state.clauses)) if first else state.clauses
        met, unions, exclusives = set(state.met), list(state.unions), list(state.exclusives)
        items: list[tuple[_Item, Trail, bool]] = [(term, trail, first) for term in reversed(schema.terms)]
        while items:
            item, way, early = items.pop()
            if isinstance(item, Place):
                inner = way.enter(item.pointer)
                if Place(item.pointer, not item.negated) in met:
                    return None
                if item not in met:
                    met.add(item)
                    items.extend(self._demands(item, clauses, inner, early))
            elif isinstance(item, Leaf | _Own):
                for union in self._own(item, clauses):
                    clauses = self._meeting.meet(clauses, union)
                if not clauses:
                    return None
            elif isinstance(item, OneOf) and self._exact:
                exclusives.append(Choice(item.alternatives, way, early))
            elif len(item.alternatives) == 1:
                items.extend((term, way, early) for term in reversed(item.alternatives[0].terms))
            else:
                unions.append(Choice(item.alternatives, way, early))
        clauses = self._meeting.meet(clauses, state.clauses) if first else clauses
        return State(clauses, frozenset(met), tuple(unions), tuple(exclusives))

    def _demands(
        self, place: Place, clauses: tuple[Clause, ...], trail: Trail, first: bool
    ) -> Iterator[tuple[_Item, Trail, bool]]:
        """What a place that is met for the first time demands, last things first."""
        if place.negated:
            yield AnyOf(self._failures(place.pointer, clauses)), trail, first
            return
        before, after = self._subschemas.requirements(place.pointer)
        yield from ((each, trail, first) for each in reversed(after))
        yield _Own(place.pointer), trail, first
        yield from ((each, trail, True) for each in reversed(before))

    def _own(self, item: Leaf | _Own, clauses: tuple[Clause, ...]) -> list[tuple[Clause, ...]]:
        """The unions that a leaf stands for, as far as they speak of the types at hand."""
        types = _types(clauses)
        if isinstance(item, _Own):
            return list(self._subschemas.clauses(item.pointer, types))
        if not item.negated:
            return [item.clauses]
        try:
            return complement(item.clauses, types)
        except Unsupported as error:
            self._refuse(error)
            return []

    def _failures(self, pointer: str, clauses: tuple[Clause, ...]) -> tuple[Schema, ...]:
        """Every way not to be of the subschema at ``pointer``."""
        before, after = self._subschemas.requirements(pointer)
        own = self._subschemas.clauses(pointer, _types(clauses))
        if pointer in self._subschemas.loose:
            return (ANYTHING,)
        failing = [Schema((Leaf(union, negated=True),)) for union in own]
        failing.extend(schema for requirement in (*before, *after) for schema in requirement.opposite())
        return tuple(failing)


def _types(clauses: tuple[Clause, ...]) -> int:
    types = 0
    for clause in clauses:
        types |= type_bit(clause)
    return types
