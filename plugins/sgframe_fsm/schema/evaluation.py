"""``unevaluatedProperties`` and ``unevaluatedItems``: which members and items the keywords beside them already looked at.

That depends on which alternatives hold, so it is worked out case by case (JSON Schema 2020-12 core, section 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sgframe_fsm.errors import GrammarTooLarge, InvalidSchema, Unsupported, place
from sgframe_fsm.schema.keywords import full
from sgframe_fsm.schema.references import step
from sgframe_fsm.schema.requirements import AnyOf, Cases, OneOf, Requirement
from sgframe_fsm.schema.shapes import ANYTHING, ArrayShape, Clause, Leaf, Members, ObjectRules, Place, Schema, all_of
from sgframe_fsm.schema.values import ALL, ARRAY, OBJECT

if TYPE_CHECKING:
    from sgframe_fsm.schema.subschemas import Subschemas

MOST_CASES = 64
"""Most combinations of alternatives that one keyword may depend on."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was evaluated: members by name and by pattern, items up to an index; or all of them."""

    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    all_members: bool = False
    items: int = 0
    all_items: bool = False

    def __or__(self, other: Seen) -> Seen:
        return Seen(
            tuple(dict.fromkeys(self.names + other.names)),
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            self.all_members or other.all_members,
            max(self.items, other.items),
            self.all_items or other.all_items,
        )


Case: TypeAlias = tuple[Schema, Seen]
"""What holds, and what is evaluated then."""
UNSEEN: Case = (ANYTHING, Seen())


def unevaluated(subschemas: Subschemas, pointer: str, node: dict[str, Any]) -> Iterator[AnyOf]:
    """What the two keywords demand, as far as they stand in ``node``."""
    for keyword in ("unevaluatedItems", "unevaluatedProperties"):
        if keyword in node:
            rest = subschemas.at(step(pointer, keyword), node[keyword])
            try:
                cases = _cases_at(subschemas, pointer, keyword, ())
            except Unsupported as error:
                subschemas.leave_out(pointer, error)
            else:
                yield AnyOf(tuple(all_of((schema, _demand(keyword, pointer, seen, rest))) for schema, seen in cases))


def _demand(keyword: str, pointer: str, seen: Seen, rest: Schema) -> Schema:
    """All that was not seen is of ``rest``."""
    if rest == ANYTHING or (seen.all_items if keyword == "unevaluatedItems" else seen.all_members):
        return ANYTHING
    if keyword == "unevaluatedItems":
        items: Clause = ArrayShape((ANYTHING,) * seen.items, rest, pointer=pointer)
        return Schema((Leaf((*full(ALL - ARRAY), items)),))
    names, patterns = (tuple((key, ANYTHING) for key in keys) for keys in (seen.names, seen.patterns))
    return Schema((Leaf((*full(ALL - OBJECT), ObjectRules((Members(names, patterns, rest),), pointer=pointer))),))


def _cases_at(subschemas: Subschemas, pointer: str, keyword: str, path: tuple[str, ...]) -> list[Case]:
    """The cases of the schema object at ``pointer``; ``path`` is what led there from the object that asks."""
    if pointer in path:
        raise InvalidSchema(pointer, "", "it leads back to itself for the same value, so it describes nothing")
    node = subschemas.node(pointer)
    own = _own(node, pointer, keyword, asking=not path)
    below = (*path, pointer)
    choices = [[(ANYTHING, own)]]
    if "if" in node and "then" not in node and "else" not in node:
        condition = subschemas.at(step(pointer, "if"), node["if"])
        choices.append([UNSEEN, *_all(subschemas, (condition,), keyword, below)])
    for requirement in subschemas.combined(pointer):
        choices.extend(_choices(subschemas, requirement, keyword, below))
    # One case of a choice is the case for sure; where all evaluate the same, it makes no difference which.
    choices = [[(ANYTHING, choice[0][1])] if len({seen for _, seen in choice}) == 1 else choice for choice in choices]
    return _product(choices, pointer, keyword)


def _choices(
    subschemas: Subschemas, requirement: Requirement, keyword: str, path: tuple[str, ...]
) -> Iterator[list[Case]]:
    """The cases of a requirement that holds, as a product of choices."""
    if isinstance(requirement, Cases):
        yield [case for pair in requirement.cases for case in _all(subschemas, pair, keyword, path)]
        return
    alternatives = [_all(subschemas, (one,), keyword, path) for one in requirement.alternatives]
    if isinstance(requirement, OneOf) or len(alternatives) == 1:
        yield [case for cases in alternatives for case in cases]
    else:  # each that holds adds what it evaluates, and any number may hold
        yield from ([UNSEEN, *cases] for cases in alternatives)


def _all(subschemas: Subschemas, schemas: Iterable[Schema], keyword: str, path: tuple[str, ...]) -> list[Case]:
    """The cases in which all of some schemas hold."""
    choices: list[list[Case]] = []
    for term in (term for schema in schemas for term in schema.terms):
        cases = [UNSEEN]
        if isinstance(term, Place) and not term.negated:
            cases = _cases_at(subschemas, term.pointer, keyword, path)
        choices.append([(all_of((Schema((term,)), schema)), seen) for schema, seen in cases])
    return _product(choices, path[0], keyword)


def _product(choices: list[list[Case]], pointer: str, keyword: str) -> list[Case]:
    """All ways to take one case of each choice."""
    found: dict[Case, None] = {UNSEEN: None}
    for choice in choices:
        found = dict.fromkeys((all_of((one[0], two[0])), one[1] | two[1]) for one in found for two in choice)
        if len(found) > MOST_CASES:
            reason = f"{place(pointer, keyword)} depends on more than {MOST_CASES} cases; use fewer alternatives"
            raise GrammarTooLarge(reason)
    return list(found)


def _own(node: dict[str, Any], pointer: str, keyword: str, *, asking: bool) -> Seen:
    """What a schema object's own keywords evaluate. ``keyword`` itself counts, but in the object that asks."""
    if keyword == "unevaluatedItems" and "contains" in node:
        raise Unsupported(
            pointer, "contains", "which items it evaluates for unevaluatedItems cannot be described; use items"
        )
    rest = keyword in node and not asking
    items = node.get("items")
    if isinstance(items, list):
        count, beyond = len(items), "additionalItems" in node
    else:
        count, beyond = len(node.get("prefixItems", ())), items is not None
    return Seen(
        tuple(node.get("properties", ())),
        tuple(node.get("patternProperties", ())),
        "additionalProperties" in node or rest,
        count,
        beyond or rest,
    )
