"""In-batch sharing: a prompt that another request is just computing is worth waiting for. Owns who is held back for that.

What a step computes of a prompt is in the cache as soon as that step is planned, so nobody waits for more than the chunks
that are still to be planned. Looks at the cache, to tell what it lacks and why; takes nothing from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgframe.interfaces.cache import Cache
from sgframe.messages import CacheReport
from sgframe.prefixes import common_length
from sgframe.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Twin:
    """``leader`` is computing the first ``shared`` tokens of another request."""

    leader: Request
    stint: int
    shared: int

    @property
    def busy(self) -> bool:
        """Whether there is still something to wait for: the leader's prompt is not planned far enough."""
        leader = self.leader
        return leader.row >= 0 and leader.stint == self.stint and leader.scheduled < self.shared


class Twins:
    """The prompts that are being computed, and the waiting requests that are held back until one of them is."""

    def __init__(self, page_size: int, cache: Cache) -> None:
        self._page_size = page_size
        self._cache = cache
        self._leaders: list[Request] = []
        self.held: dict[int, Twin] = {}
        """By the id of the waiting request."""

    def watch(self, running: Iterable[Request]) -> None:
        """From now on the leaders are those of ``running`` whose prompts are not planned to their end."""
        self._leaders = [request for request in running if request.scheduled < request.prompt_len]

    def lead(self, request: Request) -> None:
        """``request``, just admitted, may lead others."""
        self._leaders.append(request)

    def holds_back(self, request: Request) -> bool:
        """Whether ``request`` had better wait until another has computed their common prefix; if not, notes in its
        ``cache_report`` why it finds no more cached than it does."""
        held = self.held.get(request.id)
        if held is not None and held.busy:
            return True
        peek = self._cache.peek(request.tokens, request.namespace, request.match_limit)
        reason = peek.reason
        if reason == "limit":
            reason = "last_token" if request.match_limit == request.shareable - 1 else "prompt_logprobs"
        twin = self._find(request, peek.matched) if self._cache.keeps and self._leaders else None
        if twin is not None:
            self.held[request.id] = twin
            return True
        self.forget(request)
        if request.cached_tokens < 0:
            matched = min(peek.matched, request.prompt_len)  # what its grammar wrote before is not counted
            request.cache_report = CacheReport(matched, reason, peek.evicted_by, peek.evicted_ago)
        return False

    def forget(self, request: Request) -> None:
        """``request`` waits for nobody any more."""
        self.held.pop(request.id, None)

    def _find(self, request: Request, matched: int) -> Twin | None:
        """Who is computing most of ``request``'s tokens beyond the ``matched`` ones that are cached."""
        tokens, limit = request.tokens, request.match_limit
        best: Twin | None = None
        for leader in self._leaders:
            if leader.row < 0 or leader.namespace != request.namespace:
                continue
            most = min(limit, leader.prompt_len, leader.shareable)
            if most <= matched or leader.tokens[matched] != tokens[matched]:
                continue
            shared = min(most, common_length(leader.tokens, tokens)) // self._page_size * self._page_size
            if shared > max(matched, leader.scheduled) and (best is None or shared > best.shared):
                best = Twin(leader, leader.stint, shared)
        return best
