"""Names for expressions that hold in every store, so that what is known of one grammar's part serves another's."""

from __future__ import annotations

from hashlib import blake2b
from os import urandom

from sgframe_fsm.expressions.nodes import BYTES, COMPLEMENT, INTERSECTION, LITERAL, REPEAT, UNION, WORDS, Node
from sgframe_fsm.expressions.store import Expr, Store


class Digests:
    """The digests of one store's regular expressions. Equal digests mean equal expressions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[Expr, bytes] = {}
        self._own = urandom(16)

    def of(self, expression: Expr) -> bytes:
        known = self._known
        if expression not in known:
            for part in self._unknown(expression):
                known[part] = self._digest(self._store.node(part))
        return known[expression]

    def _unknown(self, expression: Expr) -> list[Expr]:
        """What the expression is made of and has no digest, children first."""
        found = {expression}
        pending = [expression]
        while pending:
            for child in self._store.children(pending.pop()):
                if child not in found and child not in self._known:
                    found.add(child)
                    pending.append(child)
        return sorted(found)

    def _digest(self, node: Node) -> bytes:
        kind = node[0]
        hashed = blake2b(bytes((kind,)), digest_size=16)
        if kind == LITERAL:
            hashed.update(node[1])
        elif kind == BYTES:
            hashed.update(node[1].to_bytes(32, "little"))
        elif kind == WORDS:
            hashed.update(
                self._own + repr(node).encode()
            )  # names a list of this store; too long a one to be worth digesting
        elif kind in (UNION, INTERSECTION):
            for digest in sorted(self._known[part] for part in node[1]):
                hashed.update(digest)
        elif kind == REPEAT:
            hashed.update(self._known[node[1]] + b"%d:%d" % node[2:])
        elif kind == COMPLEMENT:
            hashed.update(self._known[node[1]])
        else:
            for part in node[1:]:
                hashed.update(self._known[part])
        return hashed.digest()
