"""What one frame reaches: along which tokens it goes on, and at which trie nodes it may be over.

A frame is an expression by itself, without what follows it. Knows no requests, and no masks of whole states.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import numpy as np

from sgframe_fsm.expressions.digests import Digests
from sgframe_fsm.expressions.nodes import LEXEME, LITERAL
from sgframe_fsm.expressions.store import NOTHING, Expr, GrammarTooLarge, Store
from sgframe_fsm.tokens.branching import branches
from sgframe_fsm.tokens.excluding import forbidden, without
from sgframe_fsm.tokens.relaxing import relax
from sgframe_fsm.tokens.rows import States, TableFull
from sgframe_fsm.tokens.tables import Tables
from sgframe_fsm.tokens.walking import Reached, spelled, united

ROOT = np.zeros(1, np.int32).tobytes()
"""The set of nodes, written as Reached.ends is, from which a whole token is read."""
FEW = 4
"""Of so many nodes what goes along a literal is looked up, of more it is walked."""
MIN_HORIZON = 6
"""With fewer bytes to go, a walk of its own is quicker than correcting the one without a bound."""
_serials = count()


class Reaching:
    """The frames of one grammar; kept, and where they are lexemes shared with all grammars."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        self._states = States(store, tables.rows)
        self._digests = Digests(store)
        self._serial = next(_serials)

    def reach(self, frame: Expr, nodes: bytes) -> Reached:
        """Walk ``frame``, which is reduced, from each of ``nodes``. Raises GrammarTooLarge."""
        cache, key = self._tables.cache, (self._serial, frame, nodes)
        found: Reached | None = cache.get(key)
        if found is None:
            found = self._find(frame, nodes)
            cache.put(key, found, found.size)
        return found

    def _find(self, frame: Expr, nodes: bytes) -> Reached:
        node = self._store.node(frame)
        if node[0] == LITERAL and len(nodes) <= FEW * len(ROOT):
            return spelled(node[1], nodes, self._tables.trie)
        if node[0] != LEXEME:
            return self._walk(frame, nodes)
        _, part, base = node
        return self._reach_lexeme(part, nodes) if base == NOTHING else self._reach_limited(part, base, nodes)

    def _reach_lexeme(self, part: Expr, nodes: bytes) -> Reached:
        """Many tokens go on within a lexeme, so that a walk is long: the less of it the better."""
        store = self._store
        parts = branches(store, part)
        if len(parts) > 1:
            return united([self.reach(store.lexeme(part), nodes) for part in parts], self._tables.trie.words)
        if nodes == ROOT:
            relaxed, horizon = relax(store, part, self._tables.trie.longest)
            if relaxed != part and horizon >= MIN_HORIZON:
                return self._correct(part, relaxed, horizon)
        return self._share(part, nodes)

    def _reach_limited(self, part: Expr, base: Expr, nodes: bytes) -> Reached:
        """A lexeme that is ``base`` but for a few strings."""
        if len(nodes) == len(ROOT):
            prefixes = forbidden(self._store, part, base)
            if prefixes is not None:
                found = self.reach(self._store.lexeme(base), nodes)
                return without(found, prefixes, int(np.frombuffer(nodes, np.int32)[0]), self._tables.trie)
        return self._correct(part, base, 0) if nodes == ROOT else self._walk(part, nodes)

    def _correct(self, part: Expr, base: Expr, horizon: int) -> Reached:
        """From what ``base`` reaches, walking only where ``part`` differs from it; it does not within ``horizon`` bytes."""
        return self._walk(part, ROOT, (base, self.reach(self._store.lexeme(base), ROOT), horizon))

    def _share(self, part: Expr, nodes: bytes) -> Reached:
        """What ``part`` reaches, as any grammar may have found out."""
        key = self._digests.of(part), nodes
        found: Reached | None = self._tables.cache.get(key)
        if found is None:
            found = self._walk(part, nodes)
            self._tables.cache.put(key, found, found.size)
        return found

    def _walk(self, part: Expr, nodes: bytes, base: tuple[Expr, Reached, int] | None = None) -> Reached:
        try:
            return self._try_walk(part, nodes, base)
        except TableFull:
            self._tables.rows.clear()
        try:
            return self._try_walk(part, nodes, base)
        except TableFull:
            raise GrammarTooLarge(
                "the constraint is too large: one token can lead to more states than the row table holds; make it "
                "smaller, or give compressed-fsm a larger row_table"
            ) from None

    def _try_walk(self, part: Expr, nodes: bytes, base: tuple[Expr, Reached, int] | None) -> Reached:
        walker, states = self._tables.walker, self._states
        other, found, horizon = base or (NOTHING, None, 0)
        walker.begin(found)
        codes = states.code(part), states.code(other)
        starts = np.array([(node, *codes) for node in np.frombuffer(nodes, np.int32).tolist()], np.int32)
        missing: Iterable[int] = codes
        while len(starts):
            for code in missing:
                states.expand(code)
            starts = walker.walk(starts, horizon)
            missing = set(starts[:, 1:].ravel().tolist()) if len(starts) else ()
        return walker.finish()
