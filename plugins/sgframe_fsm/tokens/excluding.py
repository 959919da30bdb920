"""Lexemes that are a base but for some words, such as a key that must not be one of the declared ones.

What they reach is what the base reaches, but for the tokens that spell one of the words to its end. That is looked
up; walking every state in which a word is half spelled costs a hundred times as much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sgframe_fsm.expressions.nodes import (
    COMPLEMENT,
    EMPTY,
    INTERSECTION,
    LITERAL,
    REPEAT,
    SEQUENCE,
    UNION,
)
from sgframe_fsm.expressions.store import NOTHING, Expr, Store
from sgframe_fsm.tokens.bounding import leaf_words
from sgframe_fsm.tokens.trie import FIRST, Int32s, Trie
from sgframe_fsm.tokens.walking import Reached


def forbidden(store: Store, part: Expr, base: Expr) -> list[bytes] | None:
    """With what ``part`` must not begin; all else that ``base`` begins with it does too. None where it is not so simple.

    It is where ``part`` is content ∩ ¬words, then a literal, and ``base`` the content, then that literal; where each
    word leads from the content to itself, so that it has endless other strings wherever a word has been followed to;
    and where the literal cannot be content.
    """
    whole, limited = store.node(base), store.node(part)
    if not whole[0] == limited[0] == SEQUENCE or whole[2] != limited[2] or store.node(whole[2])[0] != LITERAL:
        return None
    content, after = whole[1], store.node(whole[2])[1]
    words = _excluded(store, limited[1], content)
    if words is None or store.derivative(content, after[0]) != NOTHING:
        return None
    return (
        [word + after[:1] for word in words]
        if all(_follow(store, content, word) == content for word in words)
        else None
    )


def without(found: Reached, prefixes: list[bytes], start: int, trie: Trie) -> Reached:
    """``found`` from the node ``start`` on, but for what begins there with one of ``prefixes``."""
    before = trie.text(start)
    spans = [span for prefix in prefixes if (span := trie.span(before + prefix)) is not None]
    if not spans:
        return found
    ends = np.frombuffer(found.ends, np.int32)
    gone = []
    for node, stop in spans:
        ends = ends[(ends < node) | (ends >= stop)]
        gone.append(trie.ids[trie.nodes[node, FIRST] : trie.nodes[stop, FIRST]])
    ids = None if found.ids is None else np.setdiff1d(found.ids, np.concatenate(gone))
    mask = None if found.mask is None else _cleared(found.mask, np.concatenate(gone))
    return Reached(ids, mask, ends.tobytes())


def _cleared(mask: NDArray[np.uint32], tokens: Int32s) -> NDArray[np.uint32]:
    mask = mask.copy()
    np.bitwise_and.at(mask, tokens >> 5, ~(np.uint32(1) << (tokens & 31).astype(np.uint32)))
    return mask


def _excluded(store: Store, limited: Expr, content: Expr) -> list[bytes] | None:
    """The words that ``limited`` is ``content`` without."""
    node = store.node(limited)
    if node[0] != INTERSECTION:
        return None
    complements = [part for part in node[1] if store.node(part)[0] == COMPLEMENT]
    whole = store.node(content)
    wanted = set(whole[1]) if whole[0] == INTERSECTION else {content}
    removed = [part for part in complements if part not in wanted]
    if len(removed) != 1 or set(node[1]) != wanted | set(removed):
        return None
    return _words(store, store.node(removed[0])[1])


def _words(store: Store, finite: Expr) -> list[bytes] | None:
    """All strings of an expression of words; None for others."""
    words: list[bytes] = []
    pending = [finite]
    while pending:
        expression = pending.pop()
        node, leaf = store.node(expression), leaf_words(store, expression)
        if leaf is not None:
            words += leaf
        elif node[0] == UNION:
            pending += node[1]
        elif node[0] == REPEAT and node[2:] == (0, 1):
            pending += (EMPTY, node[1])
        else:
            return None
    return words


def _follow(store: Store, expression: Expr, word: bytes) -> Expr:
    for byte in word:
        expression = store.derivative(expression, byte)
    return expression
