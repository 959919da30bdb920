"""Expressions that no token, or few, can tell apart from a given one: bounds on repetition taken away.

A token has few bytes, so it cannot exhaust ``.{0,1000}``: the mask of that is the mask of ``.*``, and that of
``.{0,20}`` differs from it only in tokens of more than 20 bytes.
"""

from __future__ import annotations

from sgframe_fsm.expressions.nodes import INTERSECTION, LEXEME, LITERAL, NOTHING, REPEAT, SEQUENCE, UNBOUNDED
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.tokens.bounding import consists_of, wanting


def reduced(store: Store, frame: Expr, longest: int) -> Expr:
    """A frame that allows the same tokens, none of which has more than ``longest`` bytes; the same one for many."""
    node = store.node(frame)
    if node[0] == LITERAL and len(node[1]) > longest:
        return store.literal(node[1][: longest + 1])
    if node[0] == LEXEME and node[2] == NOTHING:
        relaxed, horizon = relax(store, node[1], longest)
        return store.lexeme(relaxed) if horizon >= longest else frame
    if node[0] == REPEAT:
        relaxed, horizon = relax(store, frame, longest)
        return relaxed if horizon >= longest else frame
    return frame


def relax(store: Store, expression: Expr, longest: int) -> tuple[Expr, int]:
    """The expression without the upper bounds of its repetitions, and for how many bytes both allow the same.

    Only repetitions that stand in the expression one after the other count, and bounds on the length of a pattern, as
    long as a match is in reach from everywhere in it: elsewhere inside an intersection or a complement a bound may decide
    about all of the string. A lower bound of more than ``longest`` bytes, the longest token, becomes
    one more than that. Where nothing can be taken away, the expression itself is returned.
    """
    relaxed: list[Expr] = []
    horizon = UNBOUNDED
    node = store.node(expression)
    while node[0] == SEQUENCE:
        part, bytes_alike = _relax_part(store, node[1], longest)
        relaxed.append(part)
        horizon = min(horizon, bytes_alike)
        expression, node = node[2], store.node(node[2])
    part, bytes_alike = _relax_part(store, expression, longest)
    return store.sequence([*relaxed, part]), min(horizon, bytes_alike)


def _relax_part(store: Store, part: Expr, longest: int) -> tuple[Expr, int]:
    node = store.node(part)
    if node[0] == INTERSECTION:
        return _relax_bounded(store, part, node[1])
    if node[0] != REPEAT or store.nullable(node[1]):
        return part, UNBOUNDED
    _, repeated, least, most = node
    if least > longest:
        return store.repeat(repeated, longest + 1, None), longest + 1
    return (store.repeat(repeated, least, None), most) if 1 < most < UNBOUNDED else (part, UNBOUNDED)


def _relax_bounded(store: Store, part: Expr, both: tuple[Expr, ...]) -> tuple[Expr, int]:
    """A pattern and a bound on its length: without the upper bound, and where there is no lower one without any."""
    lengths = [inner for inner in both if store.node(inner)[0] == REPEAT and 1 < store.node(inner)[3] < UNBOUNDED]
    if len(both) != 2 or len(lengths) != 1:
        return part, UNBOUNDED
    (length,) = lengths
    (pattern,) = (inner for inner in both if inner != length)
    _, character, least, most = store.node(length)
    horizon = most - wanting(store, pattern)
    if horizon <= 0 or store.nullable(character):
        return part, UNBOUNDED
    if not consists_of(store, pattern, store.repeat(character, 0, None)):
        return part, UNBOUNDED
    return store.intersection((pattern, store.repeat(character, least, None))) if least else pattern, horizon
