"""The normal form of a JSON schema: a union of shapes, each of one JSON type, with positive keywords only.

What stands inside a shape (the schema of an item, of a property) is a Schema: a conjunction of subschemas, some negated,
that is normalised when it is asked for (``Document.shapes``). Schemas and shapes are hashable, so a recursive schema has
finitely many. Knows nothing of how a shape is written as text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

from sgframe_fsm.leaves.numbers import NumberSpec
from sgframe_fsm.leaves.strings import StringSpec
from sgframe_fsm.schema.values import ARRAY, BOOLEAN, NULL, NUMBER, OBJECT, STRING, type_of


class Place(NamedTuple):
    """The subschema at a JSON pointer of the document, or all values that it does not allow."""

    pointer: str
    negated: bool = False


class Leaf(NamedTuple):
    """Values of any of these clauses, or all values of none of them."""

    clauses: tuple[Clause, ...]
    negated: bool = False


Terms: TypeAlias = tuple[Place | Leaf, ...]


class Schema(NamedTuple):
    """All the terms hold. Their order decides the order of properties; equal schemas have equal terms in equal order."""

    terms: Terms


ANYTHING = Schema(())
NEVER = Schema((Leaf(()),))


def all_of(schemas: Iterable[Schema]) -> Schema:
    """The conjunction, without repetition."""
    terms = tuple(dict.fromkeys(term for schema in schemas for term in schema.terms))
    return NEVER if NEVER.terms[0] in terms else Schema(terms)


def negation(schema: Schema) -> Schema:
    """The complement of a schema of at most one term."""
    if schema in {ANYTHING, NEVER}:
        return NEVER if schema == ANYTHING else ANYTHING
    (term,) = schema.terms
    return Schema((term._replace(negated=not term.negated),))


def opposites(schema: Schema) -> tuple[Schema, ...]:
    """The complement of a schema, as a union: one of its terms does not hold."""
    return tuple(negation(Schema((term,))) for term in schema.terms)


@dataclass(frozen=True, slots=True)
class Null:
    """``null``."""


@dataclass(frozen=True, slots=True)
class Booleans:
    """``true`` and ``false``. One of them alone is a Const."""


@dataclass(frozen=True, slots=True)
class Const:
    """One value. Equality is JSON Schema's: 1 equals 1.0 but not true, members of an object have no order."""

    value: object = field(compare=False)
    key: Hashable
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NumberShape:
    """Numbers within a spec. ``pointer`` here and below: where it came from, for messages."""

    spec: NumberSpec
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StringShape:
    """Strings within a spec."""

    spec: StringSpec
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Contains:
    """Of the items from index ``start`` on, at least ``least`` and at most ``most`` are of ``schema``."""

    schema: Schema
    least: int = 1
    most: int | None = None
    start: int = 0


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Item i is of ``prefix[i]``, those beyond of ``items``; ``unique``: no two are equal; every ``contains`` holds."""

    prefix: tuple[Schema, ...] = ()
    items: Schema = ANYTHING
    min_items: int = 0
    max_items: int | None = None
    unique: bool = False
    contains: tuple[Contains, ...] = ()
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True)
class Members:
    """What one schema object says of members: a member is of the schemas of its name and of all patterns that match the
    name; where there is none, of ``additional``. ``properties`` stand in declared order."""

    properties: tuple[tuple[str, Schema], ...] = ()
    patterns: tuple[tuple[str, Schema], ...] = ()
    additional: Schema = ANYTHING
    pointer: str = field(default="", compare=False)

    @cached_property
    def by_name(self) -> dict[str, Schema]:
        """``properties``, to look a name up."""
        return dict(self.properties)


@dataclass(frozen=True, slots=True)
class Exists:
    """At least one member has a name that is, as a string, of ``name``, and a value of ``value``."""

    name: Schema
    value: Schema


@dataclass(frozen=True, slots=True)
class ObjectRules:
    """Objects for which all of ``members`` and of ``some`` hold, before names are worked out. It stays inside the normal
    form: ``Document.shapes`` gives ObjectShape."""

    members: tuple[Members, ...] = ()
    required: tuple[str, ...] = ()
    names: Schema = ANYTHING
    min_properties: int = 0
    max_properties: int | None = None
    some: tuple[Exists, ...] = ()
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Property:
    """A member known by name. All schemas that apply are in ``schema``; NEVER: there is no such member."""

    name: str
    schema: Schema
    required: bool


@dataclass(frozen=True, slots=True)
class Some:
    """At least one of the other members has a name within ``name`` and a value of ``value``."""

    name: StringSpec
    value: Schema


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """An object's members: ``properties`` in order, then any others.

    Attributes:
        properties: every declared and every required name, each once.
        others: of a member with another name all of these hold; their ``properties`` are empty.
        names: its name, as a string, is of this schema.
        min_properties, max_properties: count all members.
        some: each asks for at least one among the other members; one member may serve several.
    """

    properties: tuple[Property, ...]
    others: tuple[Members, ...]
    names: Schema = ANYTHING
    min_properties: int = 0
    max_properties: int | None = None
    some: tuple[Some, ...] = ()
    pointer: str = field(default="", compare=False)


Clause: TypeAlias = Null | Booleans | Const | NumberShape | StringShape | ArrayShape | ObjectRules
Shape: TypeAlias = Null | Booleans | Const | NumberShape | StringShape | ArrayShape | ObjectShape

_TYPE = {
    Null: NULL,
    Booleans: BOOLEAN,
    NumberShape: NUMBER,
    StringShape: STRING,
    ArrayShape: ARRAY,
    ObjectRules: OBJECT,
}


def type_bit(clause: Clause) -> int:
    """The JSON type of a clause."""
    return type_of(clause.value) if isinstance(clause, Const) else _TYPE[type(clause)]
