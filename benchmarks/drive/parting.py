"""Where two grammars part: the first byte at which one goes on and the other does not. Knows no cause."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from sgframe.interfaces.grammar import Matcher, Vocabulary

Mask = npt.NDArray[np.bool_]
Tokens = dict[int, bytes]


@dataclass(frozen=True)
class Parting:
    """After ``before`` one of the two allows ``byte``: ``ours`` says which. ``then`` are the bytes that it allows next.

    ``byte`` is None where no byte tells them apart: one of them wants a text cut into other tokens.
    ``count`` is that of the tokens of the mask in question that part here, ``example`` the bytes of one of them.
    """

    before: bytes
    byte: int | None
    ours: bool
    then: bytes
    count: int
    example: bytes


class Pair:
    """Two matchers over one vocabulary, after the same text ``before``."""

    def __init__(self, vocabulary: Vocabulary, ours: Matcher, theirs: Matcher, before: bytes = b"") -> None:
        self._vocabulary = vocabulary
        self._single = {data[0]: token for token, data in enumerate(vocabulary.tokens) if len(data) == 1}
        self.ours, self.theirs, self.before = ours, theirs, before

    def masks(self) -> tuple[Mask, Mask]:
        return self._mask(self.ours), self._mask(self.theirs)

    def accept(self, token: int) -> tuple[bool, bool]:
        """Advance both; what each says."""
        self.before += self._vocabulary.tokens[token]
        return self.ours.accept(token), self.theirs.accept(token)

    def partings(self) -> Iterator[Parting]:
        """All of this position: each token that one mask has and the other has not belongs to one of them."""
        ours, theirs = self.masks()
        wanted = {token: self._vocabulary.tokens[token] for token in map(int, np.flatnonzero(ours ^ theirs))}
        yield from self._below(wanted, ours, 0)

    def _below(self, wanted: Tokens, top: Mask, depth: int) -> Iterator[Parting]:
        """The partings of ``wanted``, tokens of which both allow the first ``depth`` bytes; ``top`` is our mask above."""
        ours, theirs = self.masks()
        alone = int(theirs.argmax()) if theirs.sum() == 1 else None
        if alone is not None and ours[alone]:
            yield from self._below_forced(wanted, top, depth, alone)
            return
        for byte in sorted({data[depth] for data in wanted.values() if len(data) > depth}):
            those = {token: data for token, data in wanted.items() if data[depth : depth + 1] == bytes((byte,))}
            token = self._single.get(byte)
            if token is not None and ours[token] and theirs[token]:
                yield from self._stepped(token)._below(those, top, depth + 1)
            else:
                yield from self._parting(those, top, byte)
        yield from self._parting({token: data for token, data in wanted.items() if len(data) == depth}, top, None)

    def _below_forced(self, wanted: Tokens, top: Mask, depth: int, alone: int) -> Iterator[Parting]:
        """Where they allow the token ``alone``, the text is forced: its beginnings are other cuts of the same text."""
        forced = self._vocabulary.tokens[alone]
        by_common: dict[bytes, Tokens] = {}
        for token, data in wanted.items():
            by_common.setdefault(_beginning(data[depth:], forced), {})[token] = data
        for common, those in by_common.items():
            cut = {token: data for token, data in those.items() if data[depth:] == common}
            yield from self._parting(cut, top, None)
            longer = {token: data for token, data in those.items() if token not in cut}
            if longer and common == forced:
                yield from self._stepped(alone)._below(longer, top, depth + len(forced))
            elif longer:
                place = copy(self)
                place.before, place.ours = self.before + common, self.ours.copy()
                for byte in common:
                    place.ours.accept(self._single[byte])
                for byte in {data[depth + len(common)] for data in longer.values()}:
                    at = depth + len(common)
                    yield from place._parting({t: data for t, data in longer.items() if data[at] == byte}, top, byte)

    def _parting(self, tokens: Tokens, top: Mask, byte: int | None) -> Iterator[Parting]:
        for is_ours in (True, False):
            if mine := [data for token, data in tokens.items() if top[token] == is_ours]:
                then = b"" if byte is None else self._after(self.ours if is_ours else self.theirs, byte)
                yield Parting(self.before, byte, is_ours, then, len(mine), min(mine, key=len))

    def _stepped(self, token: int) -> Pair:
        pair = copy(self)
        pair.ours, pair.theirs = self.ours.copy(), self.theirs.copy()
        pair.accept(token)
        return pair

    def _after(self, matcher: Matcher, byte: int) -> bytes:
        """The bytes that ``matcher`` allows after ``byte``."""
        ahead = matcher.copy()
        if byte not in self._single or not ahead.accept(self._single[byte]):
            return b""
        mask = self._mask(ahead)
        return bytes(byte for byte, single in sorted(self._single.items()) if mask[single])

    def _mask(self, matcher: Matcher) -> Mask:
        words = array("I", bytes(4 * self._vocabulary.words))
        matcher.fill_mask(memoryview(words))
        bits = np.unpackbits(np.frombuffer(words, dtype=np.uint8), bitorder="little")
        return bits[: len(self._vocabulary.tokens)].astype(bool)


def _beginning(one: bytes, other: bytes) -> bytes:
    """What both begin with."""
    return bytes(byte for byte, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
