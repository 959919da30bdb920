"""Grammars in the step loop: each constrained request has a guide, which says what may, what must and what cannot come
next.

A guide turns whatever a matcher raises into a GuideFault, so that one grammar's fault ends one request. Knows no
batches.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeVar

from sgframe.errors import RequestError, SgframeError
from sgframe.interfaces.grammar import CompiledGrammar, Grammar, Matcher
from sgframe.messages import GrammarUse, Ints, ints

log = logging.getLogger(__name__)

T = TypeVar("T")
LOADED_PROGRAMS = 256
"""Programs that are kept ready though no request follows them any more."""


class GuideFault(SgframeError):
    """A request cannot go on: its grammar refused a token, or failed."""


class Guide:
    """Leads one request: ``advance`` by each token of its output, in order.

    Attributes:
        finished: the output is whole, and nothing can follow.
    """

    def __init__(self, matcher: Matcher, stop_ids: frozenset[int], *, jumps: bool) -> None:
        self._matcher = matcher
        self._stop_ids = stop_ids
        self._jumps = jumps
        self._known = ints()
        """Tokens that must come next, as far as they were asked for; only without jumps."""
        self.finished = _guarded(self._matcher.is_terminated)

    def may_stop(self) -> bool:
        """Whether the output is whole as it stands."""
        return _guarded(self._matcher.may_stop)

    def advance(self, token: int) -> None:
        """The output goes on with ``token``."""
        if not _guarded(self._matcher.accept, token):
            raise GuideFault(f"the grammar refused token {token}, which its mask did not allow")
        self._known = self._known[1:]
        self.finished = _guarded(self._matcher.is_terminated)

    def forced(self, limit: int) -> Ints:
        """Advance by the tokens that must come now, at most ``limit``; none of them ends an output."""
        tokens = self._forced()[:limit] if self._jumps else ints()
        for token in tokens:
            self.advance(token)
        return tokens

    def fill(self, words: memoryview) -> None:
        """Write the mask of the next token: what the grammar allows, and the stop ids exactly when the output is whole.

        Without jumps a forced token is the only one, so that the model writes what would have been written for it.
        """
        if not self._jumps and (known := self._known or self._forced()):
            self._known = known
            words[known[0] >> 5] = 1 << (known[0] & 31)
            return
        _guarded(self._matcher.fill_mask, words)
        whole, taken = self.may_stop(), []
        for token in self._stop_ids:
            word, bit = token >> 5, 1 << (token & 31)
            if whole:
                words[word] |= bit
            elif words[word] & bit:
                words[word] &= ~bit
                taken.append(token)
        if taken and not any(words):
            raise GuideFault(
                f"the grammar allows nothing here but stop tokens, {sorted(taken)}, before the output is whole"
            )

    def _forced(self) -> Ints:
        tokens = _guarded(self._matcher.forced_tokens)
        stop = next((place for place, token in enumerate(tokens) if token in self._stop_ids), len(tokens))
        return tokens[:stop]


def _guarded(method: Callable[..., T], *arguments: object) -> T:
    try:
        return method(*arguments)
    except RequestError as error:
        raise GuideFault(str(error)) from error
    except Exception as error:  # a plugin's code: its fault ends this request alone
        log.exception("a grammar failed in %s", method.__name__)
        raise GuideFault(f"the grammar failed: {error!r}") from error


class Guides:
    """Makes guides. ``grammars`` are by name; a mask has ``words`` 32-bit words; with ``jumps`` forced tokens are
    written without asking the model."""

    def __init__(self, grammars: Mapping[str, Grammar], words: int, *, jumps: bool) -> None:
        self.words = words
        self._grammars = grammars
        self._jumps = jumps
        self._loaded: OrderedDict[bytes, CompiledGrammar] = OrderedDict()

    def guide(self, use: GrammarUse, stop_ids: frozenset[int]) -> Guide:
        """A guide at the start of its program. Raises GuideFault."""
        try:
            matcher = self._load(use).matcher()
        except Exception as error:  # a plugin's code: its fault ends this request alone
            log.exception("a program of the grammar %s cannot be loaded", use.name)
            raise GuideFault(f"the grammar {use.name} cannot load what it compiled: {error!r}") from error
        return Guide(matcher, stop_ids, jumps=self._jumps)

    def _load(self, use: GrammarUse) -> CompiledGrammar:
        if use.key not in self._loaded:
            self._loaded[use.key] = self._grammars[use.name].load(use.data)
            if len(self._loaded) > LOADED_PROGRAMS:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(use.key)
        return self._loaded[use.key]


NO_GUIDES = Guides({}, 0, jumps=False)
"""Of a scheduler that has no grammars."""
