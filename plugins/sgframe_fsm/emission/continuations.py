"""What may follow a member of an object. Owns commas, counts and which members must still come; knows no schemas.

Continuations are built from the last member to the first and shared: members that may be left out cost no more states than
members that must stand there. What follows such a member stands behind a reference: to take out what two objects have in
common would go through every subset of their members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sgframe_fsm.emission.emitting import shared
from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.leaves.separators import Separators

State: TypeAlias = tuple[int, int]
"""How many members were counted, and which needs (as bits) are still open."""
Parts: TypeAlias = tuple[Expr, ...]
"""What stands one after the other. Put together once, with all that follows: each time would copy it."""


@dataclass(frozen=True)
class Member:
    """A member that may stand in one place: how it is written, by the needs (as bits) that it serves there."""

    serving: Mapping[int, Parts]
    required: bool = False


@dataclass(frozen=True)
class Counting:
    """How many members there may be."""

    least: int = 0
    most: int | None = None

    @property
    def horizon(self) -> int:
        """The count from which on nothing changes, or no more may come."""
        return self.least if self.most is None else self.most

    def after(self, count: int) -> int:
        return min(count + 1, self.horizon) if self.most is None else count + 1

    def left(self, count: int) -> tuple[int, int | None]:
        """The least and the most that follow ``count``."""
        return max(self.least - count, 0), None if self.most is None else self.most - count


RUN = 8
"""Of so many members in a row that may be left out each alternative is written in full; further ones are referred to."""


class Continuations:
    """Members and the closing brace, given how each member is written.

    Args:
        declared: each may come once, in this order.
        other: what may come after them, again and again.
        counting: of all members.
        needs: a bit for each need; every one must be served by some member.
    """

    def __init__(
        self,
        store: Store,
        separators: Separators,
        declared: Sequence[Member],
        other: Member,
        *,
        counting: Counting,
        needs: int = 0,
    ) -> None:
        self._store = store
        self._comma = separators.comma
        self._close = store.literal(b"}")
        self._declared = declared
        self._plain = Member({0: other.serving.get(0, (NOTHING,))})
        self._servers = Member({served: written for served, written in other.serving.items() if served})
        self._counting = counting
        self._needs = needs

    def expression(self) -> Expr:
        """All that may stand after the opening brace."""
        sequence, union = self._store.sequence, self._store.union
        more, served = self._after_declared()
        first = {state: self._another(state, more, served) for state in self._states(len(self._declared))}
        optional = True  # whether all from here on may be left out
        for index in range(len(self._declared) - 1, -1, -1):
            member, after, more = self._declared[index], more, {}
            optional = optional and not member.required
            for state in self._states(index):
                chosen = self._then(member, state, after)
                if not member.required:
                    later = sequence(first[state])
                    chosen = (union((sequence(chosen), later if (index + 1) % RUN else shared(self._store, later))),)
                first[state] = chosen
                following = self._or_end(sequence((self._comma, *chosen)), state, optional)
                more[state] = following if member.required else shared(self._store, following)
        start = (0, self._needs)
        return self._or_end(sequence(first[start]), start, optional)

    def _states(self, written: int) -> Iterator[State]:
        """The states in which at most ``written`` members were written."""
        for count in range(min(written, self._counting.horizon) + 1):
            for needs in range(self._needs + 1):
                yield count, needs

    def _then(self, member: Member, state: State, more: Mapping[State, Expr]) -> Parts:
        """``member``, and what may follow it."""
        count, needs = state
        counted = self._counting.after(count)
        if self._counting.most is not None and counted > self._counting.most:
            return (NOTHING,)
        ways = [
            (*written, more[counted, needs & ~served])
            for served, written in member.serving.items()
            if needs & served == served
        ]
        return ways[0] if len(ways) == 1 else (self._store.union(map(self._store.sequence, ways)),)

    def _or_end(self, expression: Expr, state: State, optional: bool) -> Expr:
        count, needs = state
        ends = optional and not needs and count >= self._counting.least
        return self._store.union((expression, self._close)) if ends else expression

    def _another(self, state: State, more: Mapping[State, Expr], served: Mapping[State, Expr]) -> Parts:
        """One of the other members, and what may follow it: ``served`` once it served a need."""
        ways = (self._then(self._plain, state, more), self._then(self._servers, state, served))
        return ways[0] if not self._needs else (self._store.union(map(self._store.sequence, ways)),)

    def _after_declared(self) -> tuple[dict[State, Expr], dict[State, Expr]]:
        """What may follow when only other members do: as long as none of these served a need, and from then on. Then each
        serves one, so that none that has the same name takes back what was served."""
        last = self._counting.horizon
        if not self._needs:  # further counts are left to one repetition
            last = min(last, len(self._declared) + 1)
        any_server = Member({0: (self._store.union(map(self._store.sequence, self._servers.serving.values())),)})
        more: dict[State, Expr] = {}
        served: dict[State, Expr] = {}
        for needs in range(self._needs + 1):
            for count in range(last, -1, -1):
                served[count, needs] = self._others((count, needs), any_server, served, served)
                more[count, needs] = self._others((count, needs), self._plain, more, served)
        return more, served

    def _others(self, state: State, member: Member, more: Mapping[State, Expr], served: Mapping[State, Expr]) -> Expr:
        """``member`` again and again, and those that serve what is needed."""
        count, needs = state
        least, most = self._counting.left(count)
        another = self._store.sequence((self._comma, *member.serving[0]))
        if not needs:
            return self._store.sequence((self._store.repeat(another, least, most), self._close))
        serving = self._store.sequence((self._comma, *self._then(self._servers, state, served)))
        if least or most is not None:
            counted = self._store.sequence((self._comma, *self._then(member, state, more)))
            return self._store.union((counted, serving))
        return self._store.sequence((self._store.repeat(another, 0, None), serving))
