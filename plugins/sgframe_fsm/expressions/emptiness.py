"""Whether an intersection or a complement matches anything. All else matches something by construction."""

from __future__ import annotations

from collections.abc import Iterator

from sgframe_fsm.errors import GrammarTooLarge
from sgframe_fsm.expressions.derivatives import Derivatives
from sgframe_fsm.expressions.nodes import (
    BYTES,
    COMPLEMENT,
    DEAD,
    INTERSECTION,
    LEXEME,
    LITERAL,
    LOGICAL,
    NULLABLE,
    REPEAT,
    SEQUENCE,
    UNBOUNDED,
    UNION,
    UNSURE,
    WORDS,
    Expr,
    Node,
)

MOST_NESTED = 60
"""How deep intersections and complements may stand inside one another. To follow one never nests them deeper."""


class Emptiness(Derivatives):
    """Exact search for one string, depth first: what lies on the way to it is known to be alive from then on."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._lengths: dict[Expr, tuple[int, int]] = {}
        self._nestings: dict[Expr, int] = {}

    def _is_alive(self, expression: Expr) -> bool:
        """Whether the expression matches anything. Raises GrammarTooLarge when the search takes too long."""
        if not self._facts[expression] & UNSURE:
            return not self._facts[expression] & DEAD
        if self._outruns(self._nodes[expression]):
            self._facts[expression] &= ~UNSURE
            return True
        return self._search(expression)

    def lengths(self, expression: Expr) -> tuple[int, int]:
        """Bounds on the bytes of a match: at least, at most; UNBOUNDED where none is known."""
        return self._length(expression)

    def _outruns(self, node: Node) -> bool:
        """Whether a part of an intersection has plainly longer matches than the complement beside it leaves out. So it is
        with keys that are not among those known: no search is needed."""
        if node[0] != INTERSECTION or len(node[1]) != 2:
            return False
        whole, other = node[1]
        if self._nodes[whole][0] == COMPLEMENT:
            whole, other = other, whole
        if self._facts[whole] & LOGICAL or self._nodes[other][0] != COMPLEMENT:
            return False
        return self._length(whole)[1] > self._length(self._nodes[other][1])[1]

    def _require_shallow(self, expression: Expr) -> None:
        """Raises GrammarTooLarge where intersections and complements nest too deep."""
        if self._nesting(expression) > MOST_NESTED:
            raise GrammarTooLarge(
                "the grammar is too large: intersections and complements, as lookaround and negation become, "
                f"stand more than {MOST_NESTED} deep inside one another; nest fewer"
            )

    def _nesting(self, expression: Expr) -> int:
        """How deep intersections and complements stand inside one another."""
        known = self._nestings
        pending = [expression]
        while pending:
            top = pending[-1]
            logical = [child for child in self.children(top) if self._facts[child] & LOGICAL]
            missing = [child for child in logical if child not in known]
            pending += missing
            if not missing:
                inner = max((known[child] for child in logical), default=0)
                known[pending.pop()] = inner + (self._nodes[top][0] in (INTERSECTION, COMPLEMENT))
        return known[expression]

    def _search(self, expression: Expr) -> bool:
        facts = self._facts
        path: list[tuple[Expr, Iterator[Expr]]] = []
        seen = {expression}
        current: Expr | None = expression
        while current is not None:
            targets = [target for _, target in self._unsure_transitions(self._nodes[current])]
            path.append((current, iter(sorted(targets, key=self._distance))))
            if facts[current] & NULLABLE or any(self._is_sure(target) for target in targets):
                for passed, _ in path:
                    facts[passed] &= ~UNSURE
                return True
            current = self._next(path, seen)
        for dead in seen:
            facts[dead] = facts[dead] & ~UNSURE | DEAD
        return False

    def _is_sure(self, expression: Expr) -> bool:
        return not self._facts[expression] & (UNSURE | DEAD)

    def _next(self, path: list[tuple[Expr, Iterator[Expr]]], seen: set[Expr]) -> Expr | None:
        """The next state to look at, going back along the path where all is seen; None at its end."""
        while path:
            for target in path[-1][1]:
                if target in seen or self._facts[target] & DEAD:
                    continue
                self.budget.spend(1)
                seen.add(target)
                shortest, longest = self._length(target)
                if shortest <= longest:
                    return target
            path.pop()
        return None

    def _distance(self, expression: Expr) -> tuple[int, int]:
        """How far it may be to a match: where to look first, so that the search does not run down a long counter."""
        node = self._nodes[expression]
        parts = node[1] if node[0] == INTERSECTION else ()
        return self._length(expression)[0], sum(self._length(part)[0] for part in parts)

    def _length(self, expression: Expr) -> tuple[int, int]:
        """Bounds on the bytes of a match: at least, at most."""
        known = self._lengths
        pending = [expression]
        while pending:
            top = pending[-1]
            missing = () if top in known else [child for child in self.children(top) if child not in known]
            if missing:
                pending += missing
            else:
                pending.pop()
                if top not in known:
                    known[top] = self._derive_length(self._nodes[top], top)
        return known[expression]

    def _derive_length(self, node: Node, expression: Expr) -> tuple[int, int]:
        kind = node[0]
        if kind in (UNION, INTERSECTION):
            parts = [self._lengths[part] for part in node[1]]
            outer, inner = (min, max) if kind == UNION else (max, min)
            return outer(least for least, _ in parts), inner(most for _, most in parts)
        if kind in (SEQUENCE, REPEAT, LEXEME):
            shortest, longest = self._lengths[node[1]]
            if kind == SEQUENCE:
                least, most = self._lengths[node[2]]
                return shortest + least, min(longest + most, UNBOUNDED)
            return (shortest, longest) if kind == LEXEME else (node[2] * shortest, min(node[3] * longest, UNBOUNDED))
        if kind == COMPLEMENT:
            return int(not self._facts[expression] & NULLABLE), UNBOUNDED
        return self._derive_leaf_length(node)

    def _derive_leaf_length(self, node: Node) -> tuple[int, int]:
        if node[0] == LITERAL:
            return len(node[1]), len(node[1])
        if node[0] == WORDS:
            _, index, start, stop, depth = node
            self.budget.spend((stop - start) // 8)
            lengths = [len(word) - depth for word in self._word_lists[index][start:stop]]
            return min(lengths), max(lengths)
        return int(node[0] == BYTES), int(node[0] == BYTES)
