"""The waiting queue: who waits, in order of arrival, and how much was given meanwhile to those who came later."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence

from sgframe.scheduler.request import Request


class WaitingQueue:
    """Waiting requests in order of arrival. A retracted one comes back to its old place."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._gone: list[tuple[int, int]] = []  # id and uncharged tokens of requests that ended since the last ``age``

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def requests(self) -> Sequence[Request]:
        return self._requests

    def add(self, request: Request) -> None:
        insort(self._requests, request, key=_id)

    def remove(self, request: Request) -> None:
        self._requests.remove(request)

    def drop_admitted(self) -> None:
        """Let go of those that have a row by now."""
        self._requests = [request for request in self._requests if request.row < 0]

    def ended(self, request: Request) -> None:
        """``request`` leaves the scheduler; what it was given still counts against earlier ones that wait."""
        if self._requests and request.given > request.charged:
            self._gone.append((request.id, request.given - request.charged))

    def age(self, running: Iterable[Request]) -> None:
        """Bring every ``overtaken`` up to date: what later arrivals were given. O(waiting + running), once a round."""
        later, self._gone = self._gone, []
        for request in (*running, *self._requests):
            if request.given > request.charged:
                later.append((request.id, request.given - request.charged))
                request.charged = request.given
        if not later or not self._requests or max(later)[0] < self._requests[0].id:
            return
        later.sort()
        tokens = 0
        for request in reversed(self._requests):
            while later and later[-1][0] > request.id:
                tokens += later.pop()[1]
            request.overtaken += tokens


def _id(request: Request) -> int:
    return request.id
