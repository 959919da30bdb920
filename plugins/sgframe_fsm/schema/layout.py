"""From what several schema objects say of an object's members to one list of properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

from sgframe_fsm.errors import GrammarTooLarge, place
from sgframe_fsm.schema.membership import Membership
from sgframe_fsm.schema.naming import Naming
from sgframe_fsm.schema.shapes import (
    ANYTHING,
    NEVER,
    Clause,
    Const,
    Exists,
    Members,
    ObjectRules,
    ObjectShape,
    Property,
    Schema,
    Some,
    StringShape,
    all_of,
)

MOST_VARIANTS = 200
"""Most shapes that the places of demanded members may give."""
Witness = Property | Some


class Layout:
    """Lays objects out; ``strings`` gives the strings of a schema, as clauses."""

    def __init__(self, naming: Naming, membership: Membership, strings: Callable[[Schema], tuple[Clause, ...]]) -> None:
        self._naming = naming
        self._membership = membership
        self._strings = strings

    def shapes(self, rules: ObjectRules) -> Iterator[ObjectShape]:
        """The objects of ``rules`` as a union, which has one shape unless ``some`` may be fulfilled in several places."""
        required = frozenset(rules.required)
        properties = {name: self._property(rules, name, required) for name in self._declared(rules)}
        if any(each.required and each.schema == NEVER for each in properties.values()):
            return
        others = tuple(_others(rules.members))
        choices = [list(self._witnesses(exists, properties, others, rules.names)) for exists in rules.some]
        variants = 1
        for choice in choices:
            variants *= len(choice)
        if variants > MOST_VARIANTS:
            raise GrammarTooLarge(
                f"the object at {place(rules.pointer)} has {variants} variants after 'not'; simplify it"
            )
        for witnesses in product(*choices):
            yield self._shape(rules, properties, others, witnesses)

    def _declared(self, rules: ObjectRules) -> dict[str, None]:
        declared = dict.fromkeys(name for members in rules.members for name, _ in members.properties)
        return declared | dict.fromkeys(rules.required)

    def _property(self, rules: ObjectRules, name: str, required: frozenset[str]) -> Property:
        schema = self._naming.member(rules.members, name)
        if rules.names != ANYTHING and not self._membership.holds(rules.names, name):
            schema = NEVER
        return Property(name, schema, name in required)

    def _witnesses(
        self, exists: Exists, properties: dict[str, Property], others: tuple[Members, ...], names: Schema
    ) -> Iterator[Witness]:
        """The members that may be the one that is demanded, each with all that holds of it then."""
        for name, each in properties.items():
            if each.schema != NEVER and self._membership.holds(exists.name, name):
                yield Property(name, all_of((each.schema, exists.value)), True)
        if any(not members.patterns and members.additional == NEVER for members in others):
            return
        for clause in self._strings(exists.name):
            word = clause.value if isinstance(clause, Const) else None
            if isinstance(clause, StringShape):
                yield Some(clause.spec, exists.value)
            elif isinstance(word, str) and word not in properties and self._membership.holds(names, word):
                yield Property(word, all_of((self._naming.member(others, word), exists.value)), True)

    def _shape(
        self,
        rules: ObjectRules,
        properties: dict[str, Property],
        others: tuple[Members, ...],
        witnesses: tuple[Witness, ...],
    ) -> ObjectShape:
        laid = dict(properties)
        for witness in witnesses:
            if isinstance(witness, Property):
                before = laid.get(witness.name, witness)
                laid[witness.name] = replace(witness, schema=all_of((before.schema, witness.schema)))
        some = tuple(dict.fromkeys(witness for witness in witnesses if isinstance(witness, Some)))
        return ObjectShape(
            tuple(laid.values()), others, rules.names, rules.min_properties, rules.max_properties, some, rules.pointer
        )


def _others(groups: tuple[Members, ...]) -> Iterator[Members]:
    """What is said of members by patterns, and of all others; groups that say the same of all are one."""
    plain = all_of(members.additional for members in groups if not members.patterns)
    if plain != ANYTHING:
        yield Members((), (), plain)
    for members in groups:
        if members.patterns:
            yield replace(members, properties=())
