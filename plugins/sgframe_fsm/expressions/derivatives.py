"""Derivatives: what may follow a byte (Brzozowski 1964), for all bytes at once and kept.

A state of the automaton *is* an expression. A reference goes on as its body does, and what stands behind it is the stack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from itertools import chain

from sgframe_fsm.expressions.algebra import Algebra
from sgframe_fsm.expressions.nodes import (
    COMPLEMENT,
    DEAD,
    EMPTY,
    LEXEME,
    LITERAL,
    NOTHING,
    NULLABLE,
    OPEN,
    REFERENCE,
    SEQUENCE,
    UNBOUNDED,
    WORDS,
    Expr,
    Node,
)
from sgframe_fsm.expressions.partitions import SINGLE, completed, product, refined

Transitions = tuple[tuple[int, Expr], ...]
"""Disjoint byte sets and what follows each; bytes in none of them cannot stand."""


class Derivatives(Algebra, ABC):
    """Follows expressions byte by byte."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._transitions: dict[Expr, Transitions] = {}

    def transitions(self, expression: Expr) -> Transitions:
        """Disjoint byte sets and what follows each, which always matches something: there are no dead ends.

        Raises GrammarTooLarge, and ValueError for a definition that begins with itself.
        """
        known = self._transitions.get(expression)
        return self._derive(expression) if known is None else known

    def derivative(self, expression: Expr, byte: int) -> Expr:
        """What follows ``byte``; NOTHING if it cannot stand."""
        single = SINGLE[byte]
        for members, target in self.transitions(expression):
            if members & single:
                return target
        return NOTHING

    def nullable(self, expression: Expr) -> bool:
        """Whether the expression matches the empty string."""
        if self._facts[expression] & OPEN:
            self._settle(expression)
        return bool(self._facts[expression] & NULLABLE)

    def accepts(self, expression: Expr, data: bytes) -> bool:
        """Whether the expression matches ``data``."""
        for byte in data:
            expression = self.derivative(expression, byte)
            if expression == NOTHING:
                return False
        return self.nullable(expression)

    @abstractmethod
    def _is_alive(self, expression: Expr) -> bool:
        """Whether the expression matches anything."""

    def _derive(self, expression: Expr) -> Transitions:
        """Depth-first without recursion: first what stands in front of an expression, then the expression."""
        if self._facts[expression] & OPEN:
            self._settle(expression)
        known = self._transitions
        stack = [expression]
        entered: set[Expr] = set()
        while stack:
            top = stack[-1]
            if top in known or self._facts[top] & DEAD:
                known.setdefault(stack.pop(), ())
                continue
            missing = [] if top in entered else [front for front in self._fronts(top) if front not in known]
            if not entered.isdisjoint(missing):
                raise self._left_recursion(top)
            if missing:
                entered.add(top)
                stack += missing
            else:
                entered.discard(stack.pop())
                self.budget.spend(1)
                known[top] = self._factored_targets(self._STEPS[self._nodes[top][0]](self, self._nodes[top]))
        return known[expression]

    def _factored_targets(self, steps: Transitions) -> Transitions:
        if not self._unfactored:
            return steps
        factored = [self.factored(target) for _, target in steps]
        if all(same == target for same, (_, target) in zip(factored, steps, strict=True)):
            return steps
        return self._gathered((members, target) for target, (members, _) in zip(factored, steps, strict=True))

    def _left_recursion(self, expression: Expr) -> ValueError:
        names = [self._nodes[part][1] for part in self.reachable(expression) if self._nodes[part][0] == REFERENCE]
        return ValueError(f"a definition begins with itself and never gets to a first byte; one of {', '.join(names)}")

    def _fronts(self, expression: Expr) -> Iterable[Expr]:
        """Of what an expression is made, that which its first byte may belong to."""
        node = self._nodes[expression]
        kind = node[0]
        if kind == SEQUENCE:
            if self._nodes[node[1]][0] == LITERAL:
                return ()
            return node[1:] if self._facts[node[1]] & NULLABLE else node[1:2]
        if kind == LEXEME:
            return node[1:2] if node[2] == NOTHING else node[1:]
        return self.children(expression)

    def _step_nothing(self, node: Node) -> Transitions:
        return ()

    def _step_bytes(self, node: Node) -> Transitions:
        return ((node[1], EMPTY),)

    def _step_literal(self, node: Node) -> Transitions:
        return ((SINGLE[node[1][0]], self.literal(node[1][1:])),)

    def _step_words(self, node: Node) -> Transitions:
        _, index, start, stop, depth = node
        words = self._word_lists[index]
        start += len(words[start]) == depth
        steps = []
        while start < stop:
            word = words[start]
            byte = word[depth]
            end = bisect_left(words, word[:depth] + bytes((byte + 1,)), start, stop) if byte < 255 else stop
            if end == start + 1:
                steps.append((SINGLE[byte], self.literal(word[depth + 1 :])))
            else:
                steps.append((SINGLE[byte], self._intern((WORDS, index, start, end, depth + 1))))
            start = end
        self.budget.spend(len(steps) // 4)
        return tuple(steps)

    def _step_sequence(self, node: Node) -> Transitions:
        _, first, rest = node
        head = self._nodes[first]
        if head[0] == LITERAL:
            return ((SINGLE[head[1][0]], self._join(self.literal(head[1][1:]), rest)),)
        followed = self._followed(self._transitions[first], rest)
        if self._facts[first] & NULLABLE:
            return self._merge([followed, self._transitions[rest]])
        return followed

    def _step_union(self, node: Node) -> Transitions:
        return self._merge([self._transitions[part] for part in node[1]])

    def _step_repeat(self, node: Node) -> Transitions:
        _, part, least, most = node
        most = UNBOUNDED if most == UNBOUNDED else most - 1
        return self._followed(self._transitions[part], self._repeat(part, max(least - 1, 0), most))

    def _step_reference(self, node: Node) -> Transitions:
        return self._transitions[self._bodies[self._ids[node]]]

    def _step_lexeme(self, node: Node) -> Transitions:
        _, part, base = node
        if base == NOTHING:
            return tuple((members, self._lexeme(target, NOTHING)) for members, target in self._transitions[part])
        pairs = product(self._transitions[part], completed(self._transitions[base], NOTHING))
        return self._gathered((members, self._lexeme(target, follower)) for members, target, follower in pairs)

    def _step_logic(self, node: Node) -> Transitions:
        return tuple(step for step in self._unsure_transitions(node) if self._is_alive(step[1]))

    _STEPS = (
        _step_nothing,
        _step_nothing,
        _step_bytes,
        _step_literal,
        _step_words,
        _step_sequence,
        _step_union,
        _step_repeat,
        _step_logic,
        _step_logic,
        _step_reference,
        _step_lexeme,
    )
    """The transitions of an expression, those of its fronts being known; by its kind."""

    def _followed(self, transitions: Transitions, rest: Expr) -> Transitions:
        join, facts = self._join, self._facts
        steps = []
        for members, target in transitions:
            joined = join(target, rest)
            if not facts[joined] & DEAD:
                steps.append((members, joined))
        return tuple(steps)

    def _unsure_transitions(self, node: Node) -> Transitions:
        """Of an intersection or a complement: transitions that may lead to what matches nothing."""
        if node[0] == COMPLEMENT:
            rest = completed(self.transitions(node[1]), NOTHING)
            return self._gathered((members, self._complement(target)) for members, target in rest)
        first, *others = [[(members, (to,)) for members, to in self.transitions(part)] for part in node[1]]
        steps: list[tuple[int, tuple[Expr, ...]]] = list(first)
        for other in others:
            self.budget.spend(len(steps) * len(other) // 16)
            steps = [(both, ours + theirs) for both, ours, theirs in product(steps, other)]
        return self._gathered((members, self._intersect(targets)) for members, targets in steps)

    def _merge(self, alternatives: list[Transitions]) -> Transitions:
        """The transitions of a union: where the byte sets of alternatives overlap, any of their targets."""
        self.budget.spend(sum(map(len, alternatives)) // 4)
        if _are_disjoint(alternatives):
            return self._gathered(chain.from_iterable(alternatives))
        classes = refined(alternatives, self.budget.spend)
        return self._gathered(
            (members, targets[0] if len(targets) == 1 else self.union(targets)) for members, targets in classes
        )

    def _gathered(self, steps: Iterable[tuple[int, Expr]]) -> Transitions:
        """One byte set for each target, in the order of their first mention; none for NOTHING."""
        sets: dict[Expr, int] = {}
        for members, target in steps:
            sets[target] = sets.get(target, 0) | members
        sets.pop(NOTHING, None)
        return tuple((members, target) for target, members in sets.items())


def _are_disjoint(alternatives: list[Transitions]) -> bool:
    seen = 0
    for steps in alternatives:
        for members, _ in steps:
            if seen & members:
                return False
            seen |= members
    return True
