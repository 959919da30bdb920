"""Objects as expressions. Owns which members an object may have; their values are asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace

from sgframe_fsm.emission.continuations import Continuations, Counting, Member, Parts
from sgframe_fsm.emission.emitting import Context, Emitting
from sgframe_fsm.emission.kinds import Kind, beside, both, kinds_of
from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.leaves.literals import spelling
from sgframe_fsm.leaves.strings import StringSpec, admits, string_expression
from sgframe_fsm.schema.shapes import ANYTHING, NEVER, Const, ObjectShape, Schema, Some, StringShape, all_of

MOST_NEEDS = 3
MOST_COUNTED = 64
"""How many needs can be kept track of, and up to which count of members beside them."""


def object_expression(context: Context, shape: ObjectShape) -> Emitting:
    """The objects of ``shape``: properties in their order, then any others.

    A name that is not known beforehand may be written twice, as JSON lets it; the last value counts. Members are counted
    as they are written.
    """
    store, separators = context.store, context.separators
    shape = _with_needs_told(context, shape)
    known, unknown = _entries(context, shape)
    declared: list[Member] = []
    for entry in known:
        serving = yield from _serving(context, entry)
        if serving:
            declared.append(Member(serving, entry.required))
        elif entry.required:
            return NOTHING
    other = yield from _alike(context, unknown)
    counting = _counting(context, shape, declared, other)
    rest = Continuations(store, separators, declared, other, counting=counting, needs=(1 << len(shape.some)) - 1)
    return store.sequence((store.literal(b"{"), separators.gap, rest.expression()))


def _with_needs_told(context: Context, shape: ObjectShape) -> ObjectShape:
    """``shape`` with as many needs as can be kept track of. Two that one name may serve cannot: nobody knows whether the
    member that serves the second takes the place of the one that served the first."""
    kept: list[Some] = []
    for need in shape.some:
        names = [both(need.name, other.name) for other in kept]
        if len(kept) == MOST_NEEDS:
            problem = f"more than {MOST_NEEDS} properties must each have a counterexample"
        elif any(name and string_expression(context.store, name) != NOTHING for name in names):
            problem = "two properties must each have a counterexample, which may have the same name"
        else:
            kept.append(need)
            continue
        context.document.refuse(Unsupported(shape.pointer, "not", f"{problem}; negate one schema only"))
    return replace(shape, some=tuple(kept))


@dataclass(frozen=True)
class _Entry:
    """Members of one name, or of names within a spec, and the needs that they may serve."""

    name: str | StringSpec
    schema: Schema
    required: bool = False
    needs: tuple[Some, ...] = ()

    def key(self, store: Store, served: Iterable[Some]) -> Expr:
        """Their names that also serve the needs ``served``."""
        if isinstance(self.name, str):
            fits = all(admits(store, need.name, self.name) for need in served)
            return spelling(store, self.name) if fits else NOTHING
        name: StringSpec | None = self.name
        for need in served:
            name = name and both(name, need.name)
        return string_expression(store, name) if name else NOTHING


def _entries(context: Context, shape: ObjectShape) -> tuple[list[_Entry], list[_Entry]]:
    """The members known by name, in their order, and the others. Names that ``propertyNames`` lists are known, too."""
    store, document = context.store, context.document
    known = {p.name: _Entry(p.name, p.schema, p.required) for p in shape.properties}
    kinds = _kinds(context, shape)
    if shape.names != ANYTHING:
        barred = [name for name in known if not document.holds(shape.names, name)]
        known.update((name, replace(known[name], schema=NEVER)) for name in barred)
        shapes = document.shapes(shape.names)
        listed = [s.value for s in shapes if isinstance(s, Const) and isinstance(s.value, str) and s.value not in known]
        known.update(
            (name, _Entry(name, kind.schema, needs=shape.some))
            for name in listed
            for kind in kinds
            if admits(store, kind.name, name)
        )
        specs = [s.spec for s in shapes if isinstance(s, StringShape)]
        names = ((both(kind.name, spec), kind.schema) for kind in kinds for spec in specs)
        kinds = [Kind(name, schema) for name, schema in names if name]
    others = [_Entry(beside(store, kind.name, frozenset(known)), kind.schema, needs=shape.some) for kind in kinds]
    return list(known.values()), others


def _kinds(context: Context, shape: ObjectShape) -> list[Kind]:
    try:
        return kinds_of(context.store, shape.others, shape.pointer)
    except Unsupported as error:
        context.document.refuse(error)
        return [Kind(StringSpec(), ANYTHING)]


def _serving(context: Context, entry: _Entry) -> Generator[Schema, Expr, dict[int, Parts]]:
    """How the members of ``entry`` are written, by the needs (as bits) that they then serve."""
    serving: dict[int, Parts] = {}
    for bits in range(1 << len(entry.needs)):
        served = [need for index, need in enumerate(entry.needs) if bits >> index & 1]
        schema = all_of((entry.schema, *(need.value for need in served)))
        key = NOTHING if schema == NEVER else entry.key(context.store, served)
        if key != NOTHING:
            value = yield schema
            if value != NOTHING:
                serving[bits] = (key, context.separators.colon, value, context.separators.gap)
    return serving


def _alike(context: Context, entries: Iterable[_Entry]) -> Generator[Schema, Expr, Member]:
    """A member out of any of ``entries``."""
    serving = defaultdict(list)
    for entry in entries:
        for bits, written in (yield from _serving(context, entry)).items():
            serving[bits].append(context.store.sequence(written))
    return Member({bits: (context.store.union(ways),) for bits, ways in serving.items()})


def _counting(context: Context, shape: ObjectShape, declared: Sequence[Member], other: Member) -> Counting:
    """The bounds on the number of members that do not hold anyway."""
    least, most = shape.min_properties, shape.max_properties
    lacking = least - sum(member.required for member in declared)
    if lacking <= 0:
        least = 0
    if most is not None and most >= len(declared) and not other.serving:
        most = None
    counting = Counting(least, most)
    if lacking > 1 and other.serving:
        reason = (
            f"{lacking} members that are not required must stand there, and whether two have the same name cannot be told "
            "where names are free; require more of them, or forbid others (additionalProperties)"
        )
        context.document.refuse(Unsupported(shape.pointer, "minProperties", reason))
    if shape.some and counting.horizon > MOST_COUNTED:
        keyword = "minProperties" if most is None else "maxProperties"
        reason = f"members can be counted up to {MOST_COUNTED} where some must be of a kind, not to {counting.horizon}"
        context.document.refuse(Unsupported(shape.pointer, keyword, reason))
        counting = Counting()
    return counting
