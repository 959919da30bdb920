"""Text in which functions are called. Owns where calls stand and what surrounds them; knows nothing of their schemas."""

from __future__ import annotations

from collections.abc import Mapping

from sgframe.constraints import MOST_CALLS, ToolConstraint
from sgframe_fsm.expressions.store import EMPTY, Expr, Store
from sgframe_fsm.leaves.literals import spelling
from sgframe_fsm.leaves.separators import Separators
from sgframe_fsm.regex.alphabet import Utf8
from sgframe_fsm.regex.code_points import code_points, negated


def tool_calls(store: Store, separators: Separators, constraint: ToolConstraint, arguments: Mapping[str, Expr]) -> Expr:
    """The outputs of ``constraint``; ``arguments`` has the value to pass to each function, by name."""
    begin = store.literal(constraint.begin.encode())
    call = store.sequence((_call(store, separators, arguments), store.literal(constraint.end.encode())))
    another = store.sequence((store.literal(constraint.separator.encode()), begin, call))
    calls = store.sequence((call, store.repeat(another, 0, MOST_CALLS - 1 if constraint.parallel else 0)))
    if constraint.required:
        return store.sequence((begin, calls))
    return _text_before(store, constraint.begin, calls)


def _call(store: Store, separators: Separators, arguments: Mapping[str, Expr]) -> Expr:
    gap, comma, colon = separators.gap, separators.comma, separators.colon
    head = (store.literal(b"{"), gap, spelling(store, "name"), colon)
    middle = (gap, comma, spelling(store, "arguments"), colon)
    functions = (store.sequence((spelling(store, name), *middle, value)) for name, value in arguments.items())
    return store.sequence((*head, store.union(functions), gap, store.literal(b"}")))


def _text_before(store: Store, begin: str, calls: Expr) -> Expr:
    """Any text without ``begin`` in it, which may end anywhere or go on with ``begin`` and then ``calls``.

    The automaton of Knuth, Morris and Pratt (1977), a definition for each length of a half-written ``begin``.
    """
    alphabet = Utf8(store)
    states = [store.reference(f"text {written}") for written in range(len(begin))] + [calls]
    for written in range(len(begin)):
        after = {character: _overlap(begin, begin[:written] + character) for character in sorted(set(begin))}
        kept = {character: length for character, length in after.items() if length}
        others = alphabet.characters(negated(code_points((ord(character),) * 2 for character in kept)))
        parts = [EMPTY, store.sequence((others, states[0]))]
        parts += (store.sequence((store.literal(c.encode()), states[length])) for c, length in kept.items())
        store.define(f"text {written}", store.union(parts))
    return states[0]


def _overlap(begin: str, text: str) -> int:
    """The length of the longest end of ``text`` that ``begin`` starts with."""
    return next(length for length in range(len(text), -1, -1) if text.endswith(begin[:length]))
