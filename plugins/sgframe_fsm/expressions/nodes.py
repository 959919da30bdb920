"""The table of hash-consed expressions: which exist, what each is made of, and what is known of each.

Knows no algebra and no derivatives. A child's id is smaller than its parent's, but for a reference, which stands for a body
that may be defined later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from sgframe_fsm.expressions.budget import Budget
from sgframe_fsm.expressions.partitions import ALL_BYTES

Expr = int
"""An expression over bytes. Within one store equal ids mean equal expressions."""
Node = tuple[Any, ...]
"""A kind, and what that kind is made of; see the constants below."""

BYTES = (
    2  # (BYTES, members): one byte; bit b of the 256-bit integer says whether byte b is a member; two members or more
)
LITERAL = 3  # (LITERAL, data): 1 … LITERAL_BYTES bytes
WORDS = (
    4  # (WORDS, list, start, stop, depth): a slice of a sorted list of words, each without its first ``depth`` bytes
)
SEQUENCE = 5  # (SEQUENCE, first, rest): ``first`` is never a sequence
UNION = 6  # (UNION, parts): sorted, two or more
REPEAT = 7  # (REPEAT, part, least, most): ``most`` may be UNBOUNDED
INTERSECTION = 8  # (INTERSECTION, parts): sorted, two or more
COMPLEMENT = 9  # (COMPLEMENT, part)
REFERENCE = 10  # (REFERENCE, name)
LEXEME = 11  # (LEXEME, part, base): ``base`` is the part of another lexeme, or NOTHING

_SPANS = [slice(1, 1 + parts) for parts in (0, 0, 0, 0, 0, 2, 0, 1, 0, 1, 0, 2)]
"""Where in a node of each kind the expressions stand that it is made of, unions and intersections aside."""

NOTHING: Expr = 0
"""Matches no string."""
EMPTY: Expr = 1
"""Matches the empty string only."""
ANY_BYTE: Expr = 2
EVERYTHING: Expr = 3
"""Matches every string of bytes."""
BUILT_IN = 4
"""How many expressions there are in every store; their ids are those above."""
UNBOUNDED = 1 << 60

NULLABLE = 1  # matches the empty string
DEAD = 2  # matches no string
OPEN = 4  # NULLABLE and DEAD wait for definitions
IRREGULAR = 8  # has a reference in it
UNSURE = 16  # an intersection or a complement of which nobody has looked yet whether it matches anything
LOGICAL = 32  # has an intersection or a complement in it


class Nodes:
    """Expressions by id, made once each."""

    def __init__(self, budget: int) -> None:
        self.budget = Budget(budget)
        self._nodes: list[Node] = [(NOTHING,), (EMPTY,)]
        self._ids: dict[Node, Expr] = {(NOTHING,): NOTHING, (EMPTY,): EMPTY}
        self._facts = bytearray((DEAD, NULLABLE))
        self._word_lists: list[tuple[bytes, ...]] = []
        self._word_list_ids: dict[tuple[bytes, ...], int] = {}
        self._bodies: dict[Expr, Expr] = {}
        self._undefined: set[Expr] = set()
        self._unfactored: set[Expr] = set()
        self._intern((BYTES, ALL_BYTES))
        self._intern((REPEAT, ANY_BYTE, 0, UNBOUNDED))

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, expression: Expr) -> Node:
        return self._nodes[expression]

    def facts(self, expression: Expr) -> int:
        """What is known of an expression, as bits."""
        return self._facts[expression]

    def words(self, index: int) -> tuple[bytes, ...]:
        """A list that WORDS nodes are slices of."""
        return self._word_lists[index]

    def unfactored(self) -> frozenset[Expr]:
        """Unions out of which common heads are still to be taken, once a state comes there."""
        return frozenset(self._unfactored)

    def adopt(
        self,
        nodes: list[Node],
        facts: bytes,
        *,
        word_lists: list[tuple[bytes, ...]],
        bodies: dict[Expr, Expr],
        unfactored: Iterable[Expr],
    ) -> None:
        """Become what another store was, with its expressions in the order of their ids."""
        self._nodes = nodes
        self._ids = dict(zip(nodes, range(len(nodes)), strict=True))
        self._facts = bytearray(facts)
        self._word_lists = word_lists
        self._word_list_ids = {words: index for index, words in enumerate(word_lists)}
        self._bodies = bodies
        self._unfactored = set(unfactored)

    def absorb(self, source: Nodes, expression: Expr) -> Expr:
        """An expression of another store, without references, in this one."""
        ids = dict(zip(range(BUILT_IN), range(BUILT_IN), strict=True))
        parts = source.reachable(expression)
        self.budget.spend(2 * len(parts))
        for original in parts:
            if original not in ids:
                ids[original] = self._absorbed(source, source.node(original), ids)
                self._facts[ids[original]] = source.facts(original)
        return ids[expression]

    def _absorbed(self, source: Nodes, node: Node, ids: dict[Expr, Expr]) -> Expr:
        kind = node[0]
        if kind in (UNION, INTERSECTION):
            return self._intern((kind, tuple(sorted([ids[part] for part in node[1]]))))
        if kind == WORDS:
            _, index, start, stop, depth = node
            return self._intern_words(tuple(word[depth:] for word in source.words(index)[start:stop]))
        parts = node[_SPANS[kind]]
        return self._intern((kind, *(ids[part] for part in parts), *node[1 + len(parts) :]))

    def reference(self, name: str) -> Expr:
        """What ``define`` says, or will say, ``name`` stands for. Right of something that consumes, it recurses."""
        known = len(self._nodes)
        reference = self._intern((REFERENCE, name))
        if reference == known:
            self._undefined.add(reference)
        return reference

    def define(self, name: str, body: Expr) -> None:
        """Say what ``name`` stands for, once."""
        reference = self.reference(name)
        if reference in self._bodies:
            raise ValueError(f"'{name}' is defined twice")
        self._bodies[reference] = body
        self._undefined.remove(reference)
        if not self._facts[body] & OPEN:
            self._facts[reference] = self._settled_facts(reference)
        elif not self._undefined:  # what this is put into need not wait
            self._settle(reference)

    def children(self, expression: Expr) -> tuple[Expr, ...]:
        """What ``expression`` is directly made of; of a reference its body, once that is defined."""
        node = self._nodes[expression]
        kind = node[0]
        if kind in (UNION, INTERSECTION):
            return cast("tuple[Expr, ...]", node[1])
        if kind == REFERENCE and expression in self._bodies:
            return (self._bodies[expression],)
        return node[_SPANS[kind]]

    def reachable(self, root: Expr) -> list[Expr]:
        """Every expression that ``root`` is made of, itself included, children first (but for references)."""
        seen = {root}
        pending = [root]
        while pending:
            fresh = [child for child in self.children(pending.pop()) if child not in seen]
            seen.update(fresh)
            pending += fresh
        return sorted(seen)

    def _intern(self, node: Node) -> Expr:
        found = self._ids.get(node)
        if found is not None:
            return found
        self.budget.left -= 1
        if self.budget.left < 0:
            self.budget.spend(0)
        expression = len(self._nodes)
        self._nodes.append(node)
        self._ids[node] = expression
        self._facts.append(self._derive_facts(node))
        return expression

    def _intern_words(self, words: tuple[bytes, ...]) -> Expr:
        """``words``: sorted, each once, two or more."""
        index = self._word_list_ids.setdefault(words, len(self._word_lists))
        if index == len(self._word_lists):
            self._word_lists.append(words)
            self.budget.spend(len(words) // 8)
        return self._intern((WORDS, index, 0, len(words), 0))

    def _derive_facts(self, node: Node) -> int:
        """What is known of a node, from what is known of its children."""
        facts, kind = self._facts, node[0]
        if kind in (BYTES, LITERAL, WORDS):
            return NULLABLE if kind == WORDS and len(self._word_lists[node[1]][node[2]]) == node[4] else 0
        if kind == SEQUENCE:
            first, rest = facts[node[1]], facts[node[2]]
            return (first & rest & NULLABLE) | ((first | rest) & (DEAD | OPEN | IRREGULAR | LOGICAL))
        if kind in (UNION, INTERSECTION):
            return (_any_of if kind == UNION else _all_of)([facts[part] for part in node[1]])
        if kind in (REPEAT, LEXEME):
            part = facts[node[1]]
            return (part & ~DEAD) | NULLABLE if node[2] == 0 and kind == REPEAT else part
        if kind == COMPLEMENT:
            return LOGICAL | UNSURE | (~facts[node[1]] & NULLABLE)
        return OPEN | IRREGULAR

    def _settle(self, expression: Expr) -> None:
        """Find out what hangs on definitions: the least fixed point of "matches something" and "matches nothing at all"."""
        parents: dict[Expr, list[Expr]] = {expression: []}
        waiting = [expression]
        for parent in waiting:
            for child in self._require_children(parent):
                if self._facts[child] & OPEN and child not in parents:
                    waiting.append(child)
                parents.setdefault(child, []).append(parent)
        for part in waiting:
            self._facts[part] = self._facts[part] & ~(OPEN | NULLABLE) | DEAD
        queue = deque(reversed(waiting))
        while queue:
            part = queue.popleft()
            self.budget.spend(1 + len(self.children(part)) // 8)
            facts = self._settled_facts(part)
            if facts != self._facts[part]:
                self._facts[part] = facts
                queue.extend(parents[part])

    def _settled_facts(self, expression: Expr) -> int:
        node = self._nodes[expression]
        if node[0] == REFERENCE:
            return self._facts[self._bodies[expression]] & (NULLABLE | DEAD) | IRREGULAR
        return self._derive_facts(node)

    def _require_children(self, expression: Expr) -> Iterable[Expr]:
        node = self._nodes[expression]
        if node[0] == REFERENCE and expression not in self._bodies:
            raise ValueError(f"'{node[1]}' is referred to, but not defined")
        return self.children(expression)


def _any_of(parts: list[int]) -> int:
    either, both = 0, DEAD
    for part in parts:
        either |= part
        both &= part
    return (either & (NULLABLE | OPEN | IRREGULAR | LOGICAL)) | both


def _all_of(parts: list[int]) -> int:
    nullable = NULLABLE
    for part in parts:
        nullable &= part
    return LOGICAL | UNSURE | nullable
