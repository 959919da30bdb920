"""The policy ``priority``: the most urgent go first, if need be in the place of others. Knows nothing of the cache."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Running, Waiting
from sgframe_priority import PrioritySettings


class MostUrgentFirst(Policy):
    """Higher priority first, ties by arrival, with preemption and ageing.

    Bound: once later arrivals were given ``max_overtaken`` tokens while a request waited, it stands before all of them
    and is displaced by nobody; only earlier ones that are overdue as well go before it. Tokens turn into time at the
    server's own rate: at 4,000 tokens computed or generated a second, 65,536 tokens are 16 seconds.

    Work goes on: who displaces outranks its victim, so two never displace each other, nor do several in a ring. A
    request is displaced at most once for each more urgent one that is admitted: of earlier arrivals there is an end, and
    each later one adds to ``overtaken``, which the victim keeps, until it is safe.
    """

    honours_priority: ClassVar[bool] = True

    def __init__(self, settings: PrioritySettings) -> None:
        self._max_overtaken = settings.max_overtaken
        self._preempt_margin = settings.preempt_margin

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        overdue = [request for request in waiting if request.overtaken >= self._max_overtaken]
        patient = [request for request in waiting if request.overtaken < self._max_overtaken]
        return overdue + sorted(patient, key=attrgetter("priority"), reverse=True)  # stable: ties by arrival

    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        """The least urgent, of equals the latest arrival: it has waited least."""
        outranked = (
            request
            for request in running
            if request.priority + self._preempt_margin <= waiting.priority and request.overtaken < self._max_overtaken
        )
        return min(outranked, key=lambda request: (request.priority, -request.id), default=None)
