"""In-batch sharing: a prompt that another request is just computing is worth waiting for. Knows no cache and no slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgframe.messages import Ints
from sgframe.scheduler.request import Request

WORTH_WAITING = 16
"""Tokens that must be saved: fewer are computed twice in less time than a step's wait takes."""


@dataclass(frozen=True, slots=True)
class Twin:
    """``leader`` is computing the first ``shared`` tokens of another request."""

    leader: Request
    stint: int
    shared: int

    @property
    def busy(self) -> bool:
        """Whether there is still something to wait for: the leader's prompt is not far enough."""
        leader = self.leader
        return leader.row >= 0 and leader.stint == self.stint and leader.computed < self.shared


class Twins:
    """The prompts that are being computed, by which a waiting request finds one that begins like its own."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._leaders: list[Request] = []

    def watch(self, running: Iterable[Request]) -> None:
        """From now on the leaders are those of ``running`` that still compute known tokens."""
        self._leaders = [request for request in running if len(request.tokens) - request.computed >= WORTH_WAITING]

    def lead(self, request: Request) -> None:
        """``request``, just admitted, may lead others."""
        self._leaders.append(request)

    def find(self, request: Request, matched: int) -> Twin | None:
        """Who is computing most of ``request``'s tokens beyond the ``matched`` ones that are cached."""
        tokens, limit = request.tokens, request.match_limit
        best: Twin | None = None
        for leader in self._leaders:
            if leader.namespace != request.namespace:
                continue
            most = min(limit, len(leader.tokens))
            if most <= matched or leader.tokens[matched] != tokens[matched]:
                continue
            shared = _shared(leader.tokens, tokens, most) // self._page_size * self._page_size
            if shared > max(matched, leader.computed) and (best is None or shared > best.shared):
                best = Twin(leader, leader.stint, shared)
        return best


def _shared(left: Ints, right: Ints, most: int) -> int:
    """How many of the first ``most`` tokens are equal; bisects by comparing whole slices."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low
