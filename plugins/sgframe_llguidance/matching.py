"""The library's matcher behind the seam's own. Knows no constraint."""

from __future__ import annotations

from llguidance import LLMatcher

from sgframe.interfaces.grammar import CompiledGrammar, Matcher
from sgframe.messages import Ints, ints


class LlguidanceMatcher(Matcher):
    """Where the text is forced the library's mask has the tokenizer's own token alone; ``accept`` holds to the mask."""

    def __init__(self, matcher: LLMatcher, size: int, is_canonical: bool, count: int = 0) -> None:
        """``size`` is the model's count of ids, ``count`` that of the tokens accepted so far."""
        self._matcher = matcher
        self._size = size
        self._is_canonical = is_canonical
        self._count = count
        self._mask: memoryview | None = None

    def fill_mask(self, words: memoryview) -> None:
        """See Matcher."""
        words[:] = self._current_mask()

    def accept(self, token: int) -> bool:
        """See Matcher."""
        if not self._current_mask()[token // 32] >> token % 32 & 1:
            return False
        self._matcher.consume_token(token)
        self._count += 1
        self._mask = None
        self._check()
        return True

    def forced_tokens(self) -> Ints:
        """See Matcher. None for a tokenizer whose cuts are not known (see Encoder)."""
        if not self._is_canonical or self.may_stop():
            return ints()
        forced = ints(self._matcher.compute_ff_tokens())
        self._check()
        return forced

    def may_stop(self) -> bool:
        """See Matcher."""
        return self._matcher.is_accepting()

    def is_terminated(self) -> bool:
        """See Matcher."""
        return self.may_stop() and not any(self._current_mask())

    def rollback(self, count: int) -> None:
        """See Matcher."""
        if count > self._count:
            raise ValueError(f"{count} tokens cannot be undone: {self._count} were accepted")
        self._matcher.rollback(count)
        self._count -= count
        self._mask = None
        self._check()

    def copy(self) -> LlguidanceMatcher:
        """See Matcher."""
        return LlguidanceMatcher(self._matcher.deep_copy(), self._size, self._is_canonical, self._count)

    def _current_mask(self) -> memoryview:
        """One bit an id, without the library's own for the end."""
        if self._mask is None:
            mask = bytearray(self._matcher.compute_bitmask())
            self._check()
            mask[self._size // 8] &= (1 << self._size % 8) - 1
            self._mask = memoryview(mask)[: -(-self._size // 32) * 4].cast("I")
        return self._mask

    def _check(self) -> None:
        """The library never raises: it stops matching, for good."""
        if self._matcher.is_error():
            raise RuntimeError(f"llguidance failed: {self._matcher.get_error()}")


class LlguidanceProgram(CompiledGrammar):
    """Holds a matcher in the start state, of which it hands out copies."""

    def __init__(self, matcher: LLMatcher, size: int, is_canonical: bool) -> None:
        self._start = LlguidanceMatcher(matcher, size, is_canonical)

    def matcher(self) -> LlguidanceMatcher:
        """See CompiledGrammar."""
        return self._start.copy()
