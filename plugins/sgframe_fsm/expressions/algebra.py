"""Smart constructors: expressions with equal meaning become one expression as far as cheap laws tell.

Associativity, units, idempotence and commutativity keep the set of derivatives finite (Brzozowski 1964); the laws on
counters and common heads keep it small. Knows no derivatives, hence not whether an intersection matches anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgframe_fsm.expressions.nodes import (
    BYTES,
    COMPLEMENT,
    DEAD,
    EMPTY,
    EVERYTHING,
    INTERSECTION,
    IRREGULAR,
    LEXEME,
    LITERAL,
    NOTHING,
    NULLABLE,
    REPEAT,
    SEQUENCE,
    UNBOUNDED,
    UNION,
    WORDS,
    Expr,
    Node,
    Nodes,
)
from sgframe_fsm.expressions.partitions import ALL_BYTES, members_of

LITERAL_BYTES = 1024
"""Longer literals are sequences of such pieces, cut from their end, so that a step copies few bytes."""


class Algebra(Nodes):
    """Builds expressions."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._factorings: dict[Expr, Expr] = {}
        self.alphabet = ALL_BYTES
        self._missing = b""

    def literal(self, data: bytes) -> Expr:
        """Exactly ``data``; NOTHING where it has bytes that are not in the alphabet."""
        if self._missing and len(data.translate(None, self._missing)) < len(data):
            return NOTHING
        if len(data) <= LITERAL_BYTES:
            return self._intern((LITERAL, data)) if data else EMPTY
        start = len(data) % LITERAL_BYTES
        expression = EMPTY
        for end in range(len(data), start, -LITERAL_BYTES):
            piece = self._intern((LITERAL, data[end - LITERAL_BYTES : end]))
            expression = piece if expression == EMPTY else self._intern((SEQUENCE, piece, expression))
        return self._intern((SEQUENCE, self._intern((LITERAL, data[:start])), expression)) if start else expression

    def byte_set(self, members: int) -> Expr:
        """One byte; bit b of ``members`` says whether byte b, if it is in the alphabet, may stand."""
        if not 0 <= members <= ALL_BYTES:
            raise ValueError("a byte set has 256 bits")
        members &= self.alphabet
        if members & (members - 1):
            return self._intern((BYTES, members))
        return self._intern((LITERAL, bytes(members_of(members)))) if members else NOTHING

    def sequence(self, parts: Iterable[Expr]) -> Expr:
        """The parts, one after the other."""
        expression = EMPTY
        for part in reversed(list(parts)):
            expression = self._join(part, expression)
        return expression

    def repeat(self, part: Expr, least: int, most: int | None) -> Expr:
        """``least`` … ``most`` times ``part``, any number from ``least`` on if ``most`` is None. A counter, not a copy."""
        if least < 0:
            raise ValueError("a repetition cannot be negative")
        return self._repeat(part, least, UNBOUNDED if most is None else most)

    def union(self, parts: Iterable[Expr]) -> Expr:
        """What any of the parts matches."""
        return self._union(parts)

    def lexeme(self, part: Expr, base: Expr | None = None) -> Expr:
        """The language of ``part``, regular, marked as one whose token mask is worth sharing between contexts.

        ``base``: a lexeme that matches all that ``part`` does and little more, from whose mask this one can be had.
        """
        if self._facts[part] & IRREGULAR:
            raise ValueError("a lexeme is regular")
        return self._lexeme(part, NOTHING if base is None else base)

    def _lexeme(self, part: Expr, base: Expr) -> Expr:
        part, base = self._bare(part), self._bare(base)
        return part if part <= EMPTY else self._intern((LEXEME, part, NOTHING if base == part else base))

    def _bare(self, expression: Expr) -> Expr:
        node = self._nodes[expression]
        return node[1] if node[0] == LEXEME else expression

    def _join(self, first: Expr, rest: Expr) -> Expr:
        """``first``, then ``rest``."""
        if first <= EMPTY or rest <= EMPTY:
            return NOTHING if NOTHING in (first, rest) else max(first, rest)
        nodes = self._nodes
        node, follower = nodes[first], nodes[rest]
        kind = node[0]
        if kind == SEQUENCE:
            return self._join_sequence(node, rest)
        head, tail = rest, EMPTY
        if follower[0] == SEQUENCE:
            _, head, tail = follower
            follower = nodes[head]
        if kind == LITERAL and follower[0] == LITERAL:
            return self._join_literals(node[1], follower[1], rest, tail)
        if (node[1] if kind == REPEAT else first) == (
            follower[1] if follower[0] == REPEAT else head
        ) and kind != LEXEME:
            part, least, most = self._counted(first)
            _, other_least, other_most = self._counted(head)
            return self._join(self._repeat(part, least + other_least, most + other_most), tail)
        return self._intern((SEQUENCE, first, rest))

    def _join_sequence(self, node: Node, rest: Expr) -> Expr:
        spine = []
        while node[0] == SEQUENCE:
            _, first, last = node
            spine.append(first)
            node = self._nodes[last]
        self.budget.spend(len(spine) // 4)
        rest = self._join(last, rest)
        join = self._join if self._head_of(rest) != last else self._append
        for part in reversed(spine):
            rest = join(part, rest)
        return rest

    def _append(self, first: Expr, rest: Expr) -> Expr:
        """As ``_join``, where it is known that no law applies."""
        return self._intern((SEQUENCE, first, rest))

    def _join_literals(self, data: bytes, next_data: bytes, rest: Expr, tail: Expr) -> Expr:
        if len(next_data) == LITERAL_BYTES:
            return self._intern((SEQUENCE, self._intern((LITERAL, data)), rest))
        whole = data + next_data
        joined = self._intern((LITERAL, whole[-LITERAL_BYTES:]))
        if tail != EMPTY:
            joined = self._intern((SEQUENCE, joined, tail))
        if len(whole) <= LITERAL_BYTES:
            return joined
        return self._intern((SEQUENCE, self._intern((LITERAL, whole[:-LITERAL_BYTES])), joined))

    def _counted(self, expression: Expr) -> tuple[Expr, int, int]:
        """The expression as a repetition."""
        node = self._nodes[expression]
        return (node[1], node[2], node[3]) if node[0] == REPEAT else (expression, 1, 1)

    def _repeat(self, part: Expr, least: int, most: int) -> Expr:
        if most < least or (part == NOTHING and least > 0):
            return NOTHING
        nullable = self._facts[part] & NULLABLE
        least, most = 0 if nullable else least, min(most, UNBOUNDED)
        if part <= EMPTY or most == 0:
            return EMPTY
        if most == 1 and (least == 1 or nullable):
            return part
        node = self._nodes[part]
        if node[0] == REPEAT and (least == most or (least + 1) * node[2] <= least * node[3] + 1):
            return self._repeat(node[1], least * node[2], most * node[3])
        if node[0] == LITERAL and least == most and most * len(node[1]) <= LITERAL_BYTES:
            return self._intern((LITERAL, node[1] * most))
        return self._intern((REPEAT, part, least, most))

    def _union(self, parts: Iterable[Expr], *, behind: bool = False) -> Expr:
        """With ``behind`` it stands behind a common head: what its parts begin with is looked at when a state comes there.
        Lists of optional members would else be tried in every combination before anybody asks."""
        flat, finite, members, has_empty = self._flatten(parts)
        if EVERYTHING in flat:
            return EVERYTHING
        if finite or members:
            finite_union, with_empty = self._finite_union(finite, members)
            flat.update(dict.fromkeys(finite_union))
            has_empty |= with_empty
        waits = behind and self._begin_alike(flat)
        if len(flat) > 1 and not behind:
            flat = self._factored(flat)
        union = self._intern((UNION, tuple(sorted(flat)))) if len(flat) > 1 else next(iter(flat), NOTHING)
        if has_empty:
            union = self._repeat(union, 0, 1)
        if waits:
            self._unfactored.add(union)
        return union

    def _flatten(self, parts: Iterable[Expr]) -> tuple[dict[Expr, None], list[Expr], int, bool]:
        """Parts that are no unions: those of other kinds, literals and words, single bytes, and whether EMPTY is there."""
        flat: dict[Expr, None] = {}
        finite: list[Expr] = []
        members, has_empty, looked_at = 0, False, 0
        pending = list(parts)
        while pending:
            part = pending.pop()
            looked_at += 1
            node = self._nodes[part]
            kind = node[0]
            if kind == UNION:
                pending += node[1]
            elif kind == REPEAT and node[2] == 0 and node[3] == 1:
                has_empty = True
                pending.append(node[1])
            elif kind == BYTES:
                members |= node[1]
            elif kind in (LITERAL, WORDS):
                finite.append(part)
            elif kind == EMPTY:
                has_empty = True
            elif kind != NOTHING:
                flat[part] = None
        self.budget.spend(looked_at)
        return flat, finite, members, has_empty

    def _finite_union(self, finite: list[Expr], members: int) -> tuple[list[Expr], bool]:
        """The union of literals, words and a byte set: at most one expression of each kind; and whether EMPTY is in it."""
        if not members and len(finite) == 1:
            return finite, False
        words = {word for part in finite for word in self._words(part)}
        self.budget.spend(len(words) // 8)
        single = [word for word in words if len(word) == 1]
        if members or len(single) > 1:
            for word in single:
                members |= 1 << word[0]
            words.difference_update(single)
        long = sorted(word for word in words if word)
        result = [self.byte_set(members)] if members else []
        if len(long) == 1:
            result.append(self.literal(long[0]))
        elif long:
            result.append(self._intern_words(tuple(long)))
        return result, b"" in words

    def _words(self, part: Expr) -> list[bytes]:
        node = self._nodes[part]
        if node[0] == LITERAL:
            return [node[1]]
        _, index, start, stop, depth = node
        return [word[depth:] for word in self._word_lists[index][start:stop]]

    def _factored(self, parts: dict[Expr, None]) -> dict[Expr, None]:
        """Parts that differ in a counter only become one, and common heads are taken out: a b | a c is a (b | c)."""
        self.budget.spend(len(parts))
        parts = self._counters_joined(parts)
        groups: dict[int, list[Expr]] = {}
        for part in parts:
            groups.setdefault(self._start_of(part), []).append(part)
        if len(groups) == len(parts):
            return parts
        return dict.fromkeys(group[0] if len(group) == 1 else self._united(group) for group in groups.values())

    def _counters_joined(self, parts: dict[Expr, None]) -> dict[Expr, None]:
        counters: dict[tuple[Expr, Expr], list[tuple[int, int]]] = {}
        for part in parts:
            base, least, most = self._counted(self._head_of(part))
            counters.setdefault((base, self._tail_of(part)), []).append((least, most))
        if len(counters) == len(parts):
            return parts
        return dict.fromkeys(
            self._join(self._repeat(base, least, most), tail)
            for (base, tail), ranges in counters.items()
            for least, most in _touching(ranges)
        )

    def _united(self, parts: list[Expr]) -> Expr:
        """Parts that start alike: what all begin with, then the union of the rest."""
        head = self._head_of(parts[0])
        if self._nodes[head][0] != LITERAL:
            return self._join(head, self._union(map(self._tail_of, parts), behind=True))
        data = [self._nodes[self._head_of(part)][1] for part in parts]
        common = _common_length(min(data), max(data))
        rests = (
            self._join(self.literal(own[common:]), self._tail_of(part)) for own, part in zip(data, parts, strict=True)
        )
        return self._join(self.literal(data[0][:common]), self._union(rests, behind=True))

    def _begin_alike(self, parts: Iterable[Expr]) -> bool:
        """Whether two of the parts have something in common at their start."""
        starts = [self._start_of(self._counted(self._head_of(part))[0]) for part in parts]
        return len(set(starts)) < len(starts)

    def _start_of(self, part: Expr) -> int:
        """What parts that start alike have in common: the head, or of a literal the first byte (less 256, which is no
        expression)."""
        head = self._head_of(part)
        node = self._nodes[head]
        return node[1][0] - 256 if node[0] == LITERAL else head

    def factored(self, state: Expr) -> Expr:
        """``state`` with the common heads taken out that waited until a state comes there."""
        head = self._head_of(state)
        if head not in self._unfactored:
            return state
        known = self._factorings.get(head)
        if known is None:
            known = self._factorings[head] = self._union((head,))
        return self._join(known, self._tail_of(state))

    def _head_of(self, expression: Expr) -> Expr:
        node = self._nodes[expression]
        return node[1] if node[0] == SEQUENCE else expression

    def _tail_of(self, expression: Expr) -> Expr:
        node = self._nodes[expression]
        return node[2] if node[0] == SEQUENCE else EMPTY

    def _intersect(self, parts: Iterable[Expr]) -> Expr:
        """What all parts match, not looking whether that is anything. Complements become one."""
        positive: set[Expr] = set()
        negative: list[Expr] = []
        members = None
        pending = list(parts)
        self.budget.spend(len(pending) // 4)
        while pending:
            part = self._bare(pending.pop())
            node = self._nodes[part]
            if node[0] == INTERSECTION:
                self.budget.spend(len(node[1]) // 4)
                pending += node[1]
            elif node[0] == COMPLEMENT:
                negative.append(node[1])
            elif node[0] == BYTES:
                members = node[1] if members is None else members & node[1]
            elif part != EVERYTHING:
                positive.add(part)
        if members is not None:
            positive.add(self.byte_set(members))
        if negative:
            positive.add(self._complement(self.union(negative)))
        return self._intersect_flat(positive)

    def _intersect_flat(self, parts: set[Expr]) -> Expr:
        parts.discard(EVERYTHING)
        if EMPTY in parts:
            return EMPTY if all(self._facts[part] & NULLABLE for part in parts) else NOTHING
        if any(self._facts[part] & DEAD for part in parts):
            return NOTHING
        if len(parts) > 1:
            return self._intern((INTERSECTION, tuple(sorted(parts))))
        return parts.pop() if parts else EVERYTHING

    def _complement(self, part: Expr) -> Expr:
        part = self._bare(part)
        if part == NOTHING:
            return EVERYTHING
        if part == EVERYTHING:
            return NOTHING
        node = self._nodes[part]
        return node[1] if node[0] == COMPLEMENT else self._intern((COMPLEMENT, part))


def _common_length(one: bytes, other: bytes) -> int:
    """How many bytes at their start are the same."""
    return next((at for at, (ours, theirs) in enumerate(zip(one, other, strict=False)) if ours != theirs), len(one))


def _touching(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of integers, those that overlap or follow each other made one."""
    merged: list[tuple[int, int]] = []
    for least, most in sorted(ranges):
        if merged and least <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(most, merged[-1][1]))
        else:
            merged.append((least, most))
    return merged
