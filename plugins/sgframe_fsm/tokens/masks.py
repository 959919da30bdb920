"""Which tokens may follow a state: computed on demand, kept under a cap, shared wherever they are equal.

A state is a sequence of frames: what is being written, then what comes after it, as on a stack. A walk of the
vocabulary goes along one frame and ends at the trie nodes where that frame may be over; from those nodes the next
frame is walked. So a mask is known by the frames that a token can reach: it is the same at every depth of a
recursion, and what a frame allows (the inside of a JSON string, say) is worked out once for all that may come after
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

import numpy as np

from sgframe_fsm.expressions.nodes import LEXEME, LITERAL, REFERENCE, SEQUENCE, UNION
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.tokens.reaching import ROOT, Reaching
from sgframe_fsm.tokens.relaxing import reduced
from sgframe_fsm.tokens.tables import Tables
from sgframe_fsm.tokens.walking import Reached

Continuation: TypeAlias = "tuple[Expr, Continuation] | None"
"""The frames to come, the next one first."""
_APART = (LEXEME, LITERAL, REFERENCE, UNION)
MAX_APART = 16
"""Alternatives that begin with a literal, or with others, are looked at one by one up to so many, else walked together."""
MAX_SINGLE = 3
"""Those that begin otherwise are walked one by one up to so many, else together."""
_numbers = count()


class Masks:
    """The masks of one grammar's states."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        self._reaching = Reaching(store, tables)
        self._number_of: dict[Expr, int] = {}
        self._number_of_frames: dict[tuple[tuple[Expr, bytes], ...], int] = {}
        self._reductions: dict[Expr, Expr] = {}
        self._alternatives: dict[Expr, tuple[Expr, ...]] = {}

    def mask(self, state: Expr) -> memoryview:
        """One bit a token, as Matcher.fill_mask has them. Raises GrammarTooLarge."""
        number = self._number_of.get(state)
        mask: memoryview | None = None if number is None else self._tables.cache.get(number)
        return self._make(state) if mask is None else mask

    def spans(self, prefix: bytes, state: Expr) -> bool:
        """Whether some token begins with ``prefix`` and goes on with bytes that ``state`` allows."""
        nodes = self._reaching.reach(self._store.literal(prefix), ROOT).ends
        return bool(nodes) and any(found.goes_on for _, found in self._walk(state, nodes))

    def _make(self, state: Expr) -> memoryview:
        self._store.budget.refill()
        walked = list(self._walk(state, ROOT))
        frames = tuple(frame for frame, _ in walked)
        number = self._number_of_frames.get(frames)
        if number is None:
            number = self._number_of_frames[frames] = next(_numbers)
        self._number_of[state] = number
        mask: memoryview | None = self._tables.cache.get(number)
        if mask is None:
            mask, size = self._united([found for _, found in walked])
            self._tables.cache.put(number, mask, size)
        return mask

    def _united(self, parts: list[Reached]) -> tuple[memoryview, int]:
        """All tokens of ``parts``, and the bytes of new memory."""
        dense = [found.mask for found in parts if found.mask is not None]
        sparse = [found.ids for found in parts if found.ids is not None and len(found.ids)]
        if len(dense) == 1 and not sparse:
            return memoryview(dense[0]), 0  # type: ignore[arg-type]  # an array is a buffer
        mask = np.zeros(self._tables.trie.words, np.uint32)
        for part in dense:
            np.bitwise_or(mask, part, out=mask)
        words = memoryview(mask)  # type: ignore[arg-type]
        for ids in sparse:
            for token in ids.tolist():
                words[token >> 5] |= 1 << (token & 31)
        return words, mask.nbytes

    def _walk(self, state: Expr, nodes: bytes) -> Iterator[tuple[tuple[Expr, bytes], Reached]]:
        """The frames that tokens from ``nodes`` on can come to, and what each reaches."""
        store = self._store
        pending: list[tuple[Expr, Continuation, bytes]] = [(state, None, nodes)]
        while pending:
            frame, after, nodes = pending.pop()
            if store.is_empty(frame):  # a definition that never comes to an end
                continue
            node = store.node(frame)
            if node[0] == SEQUENCE:
                frame, after = node[1], (node[2], after)
                node = store.node(frame)
            if node[0] in (REFERENCE, UNION):
                parts = self._alternatives_of(frame)
                if parts != (frame,):
                    pending += [(part, after, nodes) for part in parts]
                    continue
            frame = self._reduced(frame)
            found = self._reaching.reach(frame, nodes)
            yield (frame, nodes), found
            if after is not None:
                ends = _joined(nodes, found.ends) if store.nullable(frame) else found.ends
                if ends:
                    pending.append((*after, ends))

    def _reduced(self, frame: Expr) -> Expr:
        found = self._reductions.get(frame)
        if found is None:
            found = self._reductions[frame] = reduced(self._store, frame, self._tables.trie.longest)
        return found

    def _alternatives_of(self, frame: Expr) -> tuple[Expr, ...]:
        """What to walk for a reference or a union: its parts, those without a lexeme taken together where they are many."""
        found = self._alternatives.get(frame)
        if found is None:
            found = self._alternatives[frame] = self._split(frame)
        return found

    def _split(self, frame: Expr) -> tuple[Expr, ...]:
        store = self._store
        if store.node(frame)[0] == REFERENCE:
            return tuple(store.children(frame))
        parts = store.alternatives(frame)
        kinds = [store.node(store.front(part)[0])[0] for part in parts]
        apart = _APART if sum(kind in _APART for kind in kinds) <= MAX_APART else (LEXEME,)
        alone = tuple(part for part, kind in zip(parts, kinds, strict=True) if kind in apart)
        others = tuple(part for part, kind in zip(parts, kinds, strict=True) if kind not in apart)
        if not alone:
            return (frame,)
        return alone + (others if len(others) <= MAX_SINGLE else (store.union(others),))


def _joined(nodes: bytes, ends: bytes) -> bytes:
    """The nodes of both sets."""
    if nodes == ROOT:
        return nodes + ends
    return np.unique(np.frombuffer(nodes + ends, np.int32)).tobytes()
