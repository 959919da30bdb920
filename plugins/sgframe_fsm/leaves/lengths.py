"""A pattern and bounds on length together, where counting repetitions does it and no product of automata is needed.

Owns how many characters a regex matches. Knows no spellings.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.regex.alphabet import Alphabet
from sgframe_fsm.regex.parser import parse
from sgframe_fsm.regex.syntax import (
    ANY_TEXT,
    END,
    START,
    Alternation,
    Chars,
    Node,
    Repeat,
    Sequence,
    alternation,
    repeat,
    sequence,
    trimmed,
)

Lengths = tuple[int, int | None]
"""The least and the most characters; None is no bound."""

_NEVER = alternation(())


def bounded_pattern(store: Store, pattern: str, alphabet: Alphabet, lengths: Lengths) -> Expr | None:
    """The texts of ``lengths`` in which ``pattern`` is found; None where that needs a product."""
    node = parse(pattern)
    parts = list(node.parts) if isinstance(node, Sequence) else [node]
    from_start, to_end = parts[:1] == [START], parts[-1:] == [END]
    body = sequence(parts[from_start : len(parts) - to_end])
    if body.asserts:
        return None
    if not to_end:
        body = sequence((trimmed(body, at_end=True), ANY_TEXT))
    if not from_start:
        body = sequence((ANY_TEXT, trimmed(body, at_end=False)))
    fitted = _fitted(body, *lengths)
    return None if fitted is None else _emitted(store, fitted, alphabet)


def _lengths(node: Node) -> Lengths:
    """Of what ``node``, without assertions, matches."""
    match node:
        case Sequence(parts=parts):
            return _summed(map(_lengths, parts))
        case Alternation(branches=branches):
            both = [_lengths(branch) for branch in branches]
            longest = [most for _, most in both if most is not None]
            bounded = len(longest) == len(both)
            return min((least for least, _ in both), default=0), max(longest, default=0) if bounded else None
        case Repeat(part=part):
            least, most = _lengths(part)
            if most == 0 or node.most == 0:
                return 0, 0
            return node.least * least, None if most is None or node.most is None else node.most * most
    return 1, 1


def _summed(lengths: Iterable[Lengths]) -> Lengths:
    least, most = 0, 0
    endless = False
    for shortest, longest in lengths:
        least += shortest
        most += longest or 0
        endless |= longest is None
    return least, None if endless else most


def _fitted(node: Node, least: int, most: int | None) -> Node | None:
    """What ``node`` matches that has ``least`` … ``most`` characters."""
    shortest, longest = _lengths(node)
    if least <= shortest and (most is None or (longest is not None and longest <= most)):
        return node
    if (most is not None and shortest > most) or (longest is not None and longest < least):
        return _NEVER
    match node:
        case Sequence(parts=parts):
            return _fitted_sequence(parts, least, most)
        case Alternation(branches=branches):
            fitted = [branch for branch in (_fitted(branch, least, most) for branch in branches) if branch is not None]
            return alternation(fitted) if len(fitted) == len(branches) else None
        case Repeat():
            return _fitted_repeat(node, least, most)
    return None


def _fitted_repeat(node: Repeat, least: int, most: int | None) -> Node | None:
    once, longest_once = _lengths(node.part)
    if once != longest_once:
        return None
    times = [bound for bound in (node.most, None if most is None else most // once) if bound is not None]
    return repeat(node.part, max(node.least, -(-least // once)), min(times, default=None), node.position)


def _fitted_sequence(parts: tuple[Node, ...], least: int, most: int | None) -> Node | None:
    """Where one part alone varies in length, that one is fitted; where none has room for more than its least, all are."""
    shortest = [_lengths(part)[0] for part in parts]
    varying = [index for index, part in enumerate(parts) if _lengths(part)[1] != shortest[index]]
    fixed = sum(shortest)
    fitted = list(parts)
    for index in varying:
        room = None if most is None else most - fixed + shortest[index]
        if len(varying) > 1 and room != shortest[index]:
            return None
        part = _fitted(parts[index], max(least - fixed + shortest[index], 0), room)
        if part is None:
            return None
        fitted[index] = part
    return sequence(fitted)


def _emitted(store: Store, node: Node, alphabet: Alphabet) -> Expr:
    match node:
        case Sequence(parts=parts):
            return store.sequence([_emitted(store, part, alphabet) for part in parts])
        case Alternation(branches=branches):
            return store.union([_emitted(store, branch, alphabet) for branch in branches])
        case Repeat(part=part, least=least, most=most):
            return store.repeat(_emitted(store, part, alphabet), least, most)
        case Chars(points=points):
            return alphabet.characters(points)
    raise TypeError(f"{type(node).__name__} asserts")
