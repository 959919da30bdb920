"""The library's matcher behind the seam's own. Knows no constraint."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xgrammar

from sgframe.interfaces.grammar import CompiledGrammar, Matcher
from sgframe.messages import Ints, ints

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")
"""What UTF-8 would spell a surrogate with, were it allowed to (RFC 3629). The library takes it for a character."""
_SECOND_HALF = re.compile(rb"[\xa0-\xbf]")


class Tokens:
    """The bytes of the model's tokens, and which of them are sound: they spell no surrogate and hold nothing ``forbidden``.

    Attributes:
        sound: one bit a token; a row of the library's has a bit more, for the end.
        sound_after_ed: those that may follow a first byte ED.
    """

    def __init__(self, tokens: Sequence[bytes], forbidden: bytes) -> None:
        self.bytes = tokens
        unsound = re.compile(_SURROGATE.pattern + (b"|[" + re.escape(forbidden) + b"]" if forbidden else b""))
        self.sound = _pack([bool(data) and not unsound.search(data) for data in tokens])
        self.sound_after_ed = self.sound & ~_pack([bool(_SECOND_HALF.match(data)) for data in tokens])


def _pack(bits: list[bool]) -> npt.NDArray[np.int32]:
    padded = np.zeros((len(bits) // 32 + 1) * 32, dtype=bool)
    padded[: len(bits)] = bits
    return np.packbits(padded, bitorder="little").view(np.int32)


class XgrammarMatcher(Matcher):
    """Forces nothing: the library's forced text is cut greedily and not as the model's tokenizer would."""

    def __init__(self, matcher: xgrammar.GrammarMatcher, tokens: Tokens, accepted: list[int]) -> None:
        self._matcher = matcher
        self._tokens = tokens
        self._accepted = accepted

    def fill_mask(self, words: memoryview) -> None:
        """See Matcher."""
        words[:] = self._mask().view(np.uint32)[: len(words)].data

    def accept(self, token: int) -> bool:
        """See Matcher."""
        accepted = bool(self._sound()[token // 32] >> token % 32 & 1) and bool(self._matcher.accept_token(token))
        if accepted:
            self._accepted.append(token)
        return accepted

    def forced_tokens(self) -> Ints:
        """See Matcher."""
        return ints()

    def may_stop(self) -> bool:
        """See Matcher."""
        return bool(self._matcher.is_completed())

    def is_terminated(self) -> bool:
        """See Matcher."""
        return self.may_stop() and not self._mask().any()

    def rollback(self, count: int) -> None:
        """See Matcher."""
        if count > len(self._accepted):
            raise ValueError(f"{count} tokens cannot be undone: {len(self._accepted)} were accepted")
        if count:
            self._matcher.rollback(count)
            del self._accepted[-count:]

    def copy(self) -> XgrammarMatcher:
        """See Matcher."""
        return XgrammarMatcher(self._matcher.fork(), self._tokens, self._accepted[:])

    def _mask(self) -> npt.NDArray[np.int32]:
        row = np.zeros_like(self._tokens.sound)
        self._matcher.fill_next_token_bitmask(row[None])
        return row & self._sound()

    def _sound(self) -> npt.NDArray[np.int32]:
        inside = self._accepted and self._tokens.bytes[self._accepted[-1]].endswith(b"\xed")
        return self._tokens.sound_after_ed if inside else self._tokens.sound


class XgrammarProgram(CompiledGrammar):
    """What the library compiled for one vocabulary."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, tokens: Tokens) -> None:
        self._compiled = compiled
        self._tokens = tokens

    def matcher(self) -> XgrammarMatcher:
        """See CompiledGrammar."""
        return XgrammarMatcher(xgrammar.GrammarMatcher(self._compiled), self._tokens, [])
