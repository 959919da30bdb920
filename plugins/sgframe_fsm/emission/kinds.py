"""The members of an object that it does not know by name, parted by what is said of their names.

Owns which patterns a name matches and whose schemas thus apply. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import NOTHING, Store
from sgframe_fsm.leaves.strings import StringSpec, admits, string_expression
from sgframe_fsm.schema.merging import merge
from sgframe_fsm.schema.shapes import ANYTHING, NEVER, Members, Schema, StringShape, all_of

MOST_KINDS = 64


@dataclass(frozen=True)
class Kind:
    """Members with a name within ``name`` and a value of ``schema``."""

    name: StringSpec
    schema: Schema


def kinds_of(store: Store, others: Sequence[Members], pointer: str) -> list[Kind]:
    """The kinds of member that ``others`` allow; no name is of two kinds.

    Raises Unsupported when patterns overlap in more than MOST_KINDS ways.
    """
    patterns = list(dict.fromkeys(pattern for members in others for pattern in _telling(members)))
    parts = [_Part(frozenset(), StringSpec())]
    for index, pattern in enumerate(patterns):
        open_patterns = frozenset(patterns[index + 1 :])
        parts = [half for part in parts for half in part.split(store, pattern, others, open_patterns)]
        if len(parts) > MOST_KINDS:
            reason = f"the {len(patterns)} patterns overlap in over {MOST_KINDS} ways; make them exclude each other"
            raise Unsupported(pointer, "patternProperties", reason)
    kinds = (Kind(part.name, part.schema(others)) for part in parts)
    return [kind for kind in kinds if kind.schema != NEVER]


@dataclass(frozen=True)
class _Part:
    """Names that match the patterns ``matched`` and none of the others looked at so far."""

    matched: frozenset[str]
    name: StringSpec

    def split(
        self, store: Store, pattern: str, others: Sequence[Members], open_patterns: frozenset[str]
    ) -> Sequence[_Part]:
        """The names that match ``pattern`` and those that do not, as far as there are any and they are not forbidden."""
        overlapping = (lacked for lacked in self.name.not_patterns if _overlap(store, lacked, pattern))
        name = replace(self.name, patterns=(*self.name.patterns, pattern), not_patterns=tuple(overlapping))
        matching = _Part(self.matched | {pattern}, name)
        rest = _Part(self.matched, replace(self.name, not_patterns=(*self.name.not_patterns, pattern)))
        allowed = [part for part in (matching, rest) if not part.forbidden(others, open_patterns)]
        if len(allowed) < 2:
            return allowed
        if string_expression(store, matching.name) == NOTHING:
            return (self,)
        if string_expression(store, rest.name) == NOTHING:
            return (_Part(matching.matched, self.name),)
        return allowed

    def forbidden(self, others: Sequence[Members], open_patterns: frozenset[str]) -> bool:
        """Whether there can be no such member, whichever of ``open_patterns`` its name matches."""
        return any(
            _applying(members, self.matched) == NEVER
            for members in others
            if open_patterns.isdisjoint(pattern for pattern, _ in members.patterns)
        )

    def schema(self, others: Sequence[Members]) -> Schema:
        return all_of(_applying(members, self.matched) for members in others)


def _applying(members: Members, matched: frozenset[str]) -> Schema:
    """What ``members`` says of the value of a name that matches these patterns."""
    applying = [schema for pattern, schema in members.patterns if pattern in matched]
    return all_of(applying) if applying else members.additional


def _telling(members: Members) -> Iterable[str]:
    """The patterns that make a difference."""
    return (p for p, schema in members.patterns if schema != ANYTHING or members.additional != ANYTHING)


def _overlap(store: Store, left: str, right: str) -> bool:
    return string_expression(store, StringSpec(patterns=(left, right))) != NOTHING


def both(left: StringSpec, right: StringSpec) -> StringSpec | None:
    """The strings of both specs; None when it is plain that there is none."""
    merged = merge(StringShape(left), StringShape(right))
    return merged.spec if isinstance(merged, StringShape) else None


def beside(store: Store, name: StringSpec, known: frozenset[str]) -> StringSpec:
    """``name`` without the ``known`` ones; those outside it anyway are not worth excluding."""
    inside = known if name == StringSpec() else frozenset(text for text in known if admits(store, name, text))
    return replace(name, excluded=name.excluded | inside)
