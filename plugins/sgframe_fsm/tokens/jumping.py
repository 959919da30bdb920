"""Jump-forward: which tokens come next whatever the model thinks, and stay right whatever follows.

The bytes up to the next choice are known (compression.py); here they become the tokens that the tokenizer would
write. Its last ones may look otherwise once more is written, so those that a token across the border could change are
held back. Never changes tokens that are already there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from tokenizers import Tokenizer

from sgframe.messages import Ints, ints
from sgframe_fsm.expressions.stepping import Stepper
from sgframe_fsm.expressions.store import Expr, Store
from sgframe_fsm.tokens.masks import Masks
from sgframe_fsm.tokens.trie import Trie

CONTEXT = 4
"""How many of the tokens before are shown to the tokenizer with the forced bytes."""
MAX_KNOWN = 8192
"""Answers kept for each grammar; at the bound all are forgotten."""


class Canonical:
    """The tokens that a vocabulary's own tokenizer writes. ``tokenizer_json`` as in Vocabulary."""

    def __init__(self, tokens: Sequence[bytes], tokenizer_json: str) -> None:
        self.tokens = tokens
        self._tokenizer = Tokenizer.from_str(tokenizer_json) if tokenizer_json else None
        if self._tokenizer is not None:
            self._tokenizer.encode_special_tokens = True  # the name of a special token is mere text here
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()

    def __bool__(self) -> bool:
        return self._tokenizer is not None

    def encode(self, context: Sequence[int], data: bytes) -> list[int]:
        """The tokens of ``data``, written after ``context``; none where the tokenizer does not spell it byte for byte, or
        would have written the last token of ``context`` otherwise."""
        before = b"".join([self.tokens[token] for token in context])
        start = _first_character(before + data)
        border = len(before) - start
        ids = self._encode((before + data)[start:]) if border >= 0 else []
        at = 0
        for number, token in enumerate(ids):
            if at == border:
                return ids[number:] if not number or ids[number - 1] == context[-1] else []
            at += len(self.tokens[token])
        return []

    def _encode(self, data: bytes) -> list[int]:
        assert self._tokenizer is not None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return []
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids if b"".join([self.tokens[token] for token in ids]) == data else []


class Run(NamedTuple):
    """``data``: the whole characters that come next. ``borders``: where a token may begin that reaches past the end; the
    end."""

    data: bytes
    borders: tuple[int, ...]


class Jumps:
    """The forced tokens of one grammar's states."""

    def __init__(self, store: Store, stepper: Stepper, masks: Masks, trie: Trie, canonical: Canonical) -> None:
        self._store = store
        self._stepper = stepper
        self._masks = masks
        self._trie = trie
        self._canonical = canonical
        self._runs: dict[Expr, Run | None] = {}
        self._known: dict[tuple[Expr, tuple[int, ...]], Ints] = {}
        self._crossed: dict[tuple[bytes, Expr], bool] = {}

    def forced_tokens(self, state: Expr, context: Sequence[int]) -> Ints:
        """See Matcher; ``context`` are the last tokens accepted before ``state``."""
        if state not in self._runs:
            self._runs[state] = self._find_run(state) if self._canonical else None
        forced = self._runs[state]
        if forced is None:
            return ints()
        key = (state, tuple(context))
        found = self._known.get(key)
        if found is None:
            if len(self._known) == MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = ints(self._tokens_of(forced, context))
        return found[:]

    def _tokens_of(self, run: Run, context: Sequence[int]) -> list[int]:
        """What the tokenizer writes first, at whichever border it goes over to a token that reaches past the end."""
        tokens = self._canonical.encode(context, run.data[: run.borders[0]])
        for border in run.borders[1:]:
            if not tokens:
                break
            others = self._canonical.encode(context, run.data[:border])
            tokens = [token for token, _ in takewhile(_are_equal, zip(tokens, others, strict=False))]
        return tokens

    def _find_run(self, state: Expr) -> Run | None:
        """What is forced in ``state``; None if no whole character is, or none that a token could not reach across."""
        self._store.budget.refill()
        data, after = self._stepper.run(state)
        length = _whole_characters(data)
        rest = self._store.sequence((self._store.literal(data[length:]), after))
        data = data[:length]
        borders = [
            start for start in range(max(0, length - self._trie.longest), length) if self._spans(data[start:], rest)
        ]
        return None if not data or 0 in borders else Run(data, (*borders, length))

    def _spans(self, prefix: bytes, rest: Expr) -> bool:
        following, last = self._trie.after(prefix)
        possible, exact = self._stepper.first_bytes(rest)
        if not following & possible:
            return False
        if exact and last & possible:
            return True
        key = prefix, rest
        if key not in self._crossed:
            self._crossed[key] = self._masks.spans(prefix, rest)
        return self._crossed[key]


def _are_equal(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]


def _first_character(data: bytes) -> int:
    """Where the first character begins: after at most three bytes of one cut off in front."""
    return next((at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)


def _whole_characters(data: bytes) -> int:
    """How many bytes of ``data`` there are without a last character that is cut off."""
    for back in range(1, min(len(data), 3) + 1):
        lead = data[-back]
        if lead >= 0xC0:
            width = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return len(data) - back if back < width else len(data)
    return len(data)
