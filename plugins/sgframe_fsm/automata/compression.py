"""Compression: a run of states with one way forward becomes one edge.

This is what lets output jump forward. Knows bytes only; which tokens a run stands for is not its business.
"""

from __future__ import annotations

from sgframe_fsm.expressions.nodes import LITERAL, SEQUENCE
from sgframe_fsm.expressions.store import Expr, Store

LONGEST_RUN = 4096
"""Bytes at which a run is cut, so that ``a{1000000}`` is not written out."""


def forced(store: Store, expression: Expr) -> tuple[bytes, Expr]:
    """The longest run of bytes that everything matched by ``expression`` begins with, and what follows it.

    It ends where a match may end, where more than one byte is possible, or at LONGEST_RUN. Raises GrammarTooLarge.
    """
    run = bytearray()
    while len(run) < LONGEST_RUN and not store.nullable(expression):
        node = store.node(expression)
        if node[0] == SEQUENCE and store.node(node[1])[0] == LITERAL:
            run += store.node(node[1])[1]
            expression = node[2]
            continue
        transitions = store.transitions(expression)
        if len(transitions) != 1:
            break
        members, target = transitions[0]
        if members & (members - 1):
            break
        run.append(members.bit_length() - 1)
        expression = target
    return bytes(run), expression
