"""A second policy and cache in shadow: they see the requests of the service and decide for themselves, and nobody obeys.

Reads the service's requests and writes to none of them. Knows nothing of rows, batches and workers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from sgframe.interfaces.cache import Cache
from sgframe.interfaces.policy import Policy
from sgframe.messages import ints
from sgframe.scheduler.admission import fault
from sgframe.scheduler.memory import KvMemory
from sgframe.scheduler.queue import WaitingQueue
from sgframe.scheduler.request import Request
from sgframe.statistics import ShadowStats

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Pair:
    """A request of the service, ``real``, and its ``image`` in the shadow, whose row is 0 once it is admitted there.

    ``served``: the service has admitted it. ``final`` is -1 until the service is done with it, then the tokens computed.
    """

    real: Request
    image: Request
    served: bool = False
    final: int = -1

    @property
    def admitted(self) -> bool:
        return self.image.row >= 0


class Simulation:
    """A queue, an order, a pool of as many slots and a cache, fed with the events of the service.

    In each round it admits as many new requests as the service, in its own policy's order, each from what its own cache
    holds. While a request runs in service and is admitted here, its image leases what the request leases. The images that
    are behind the service, of requests that run or have ended there, are as many as those ahead of it: never more than the
    requests that wait in service.

    It is an approximation. A prompt is cached at once, when it is admitted, and an output as the service generates it. An
    image leases nothing while its request waits in service, again after a retraction, or when it has ended there. The
    policy preempts nobody, and what does not fit is not cached.
    """

    def __init__(self, slots: int, page_size: int, cache: Cache, policy: Policy) -> None:
        self.memory = KvMemory(slots, page_size, cache)
        self._policy = policy
        self._queue = WaitingQueue()
        self.pairs: dict[int, Pair] = {}
        self._prompt_tokens = self._cached_tokens = self._service_cached_tokens = 0
        self._overtaken = self._service_overtaken = 0

    def arrived(self, real: Request) -> None:
        image = replace(real, tokens=real.tokens[:], slots=ints(), prompt_logprobs=[], scores=[])
        self.pairs[real.id] = Pair(real, image)
        self._queue.add(image)

    def round(self, admitted: Sequence[Request]) -> None:
        """The service admitted these, some of them perhaps again."""
        new = [pair for request in admitted if not (pair := self.pairs[request.id]).served]
        for pair in new:
            pair.served = True
            self._service_overtaken = max(self._service_overtaken, pair.real.overtaken)
            if pair.admitted:
                self._count(pair)
        for pair in self.pairs.values():
            if pair.admitted:
                self._follow(pair)
        self._admit(len(new))

    def ended(self, real: Request) -> None:
        """The service is done with ``real``, which still knows what it has computed."""
        pair = self.pairs[real.id]
        pair.final = real.computed
        if pair.admitted:
            self._follow(pair)
            if not pair.served:
                self._admit(1)  # whom it took the place of
        elif not pair.served:
            self._queue.remove(pair.image)
            del self.pairs[real.id]

    def flushed(self) -> None:
        self.memory.flush()

    def stats(self, policy: str, cache: str) -> ShadowStats:
        """``policy`` and ``cache`` are what they are called."""
        return ShadowStats(
            policy=policy,
            cache=cache,
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self._cached_tokens,
            service_cached_tokens=self._service_cached_tokens,
            overtaken=self._overtaken,
            service_overtaken=self._service_overtaken,
        )

    def check(self) -> None:
        """Raise AssertionError unless every slot has exactly one owner."""
        self.memory.check([pair.image for pair in self.pairs.values() if pair.image.lease is not None])

    def _admit(self, count: int) -> None:
        if not count:
            return
        self._queue.age(pair.image for pair in self.pairs.values() if pair.admitted)
        for image in list(islice(self._ordered(), count)):
            self._start(self.pairs[image.id])
        self._queue.drop_admitted()

    def _ordered(self) -> Sequence[Request]:
        waiting = self._queue.requests
        ordered = self._policy.order(tuple(waiting), self.memory.cache)
        if wrong := fault(waiting, ordered):
            raise ValueError(f"the policy {wrong}")
        return ordered  # type: ignore[return-value]  # the same objects, seen through the policy's protocol

    def _start(self, pair: Pair) -> None:
        image = pair.image
        self._overtaken = max(self._overtaken, image.overtaken)
        self._lease(image)
        image.row, image.cached_tokens = 0, min(image.matched, image.prompt_len)
        image.tokens = pair.real.tokens  # which grow from here on
        if pair.served:
            self._count(pair)
        self._follow(pair)

    def _count(self, pair: Pair) -> None:
        """Both have admitted it."""
        self._prompt_tokens += pair.image.prompt_len
        self._cached_tokens += pair.image.cached_tokens
        self._service_cached_tokens += pair.real.cached_tokens

    def _follow(self, pair: Pair) -> None:
        """Bring an admitted image to where its request is in service."""
        real, image = pair.real, pair.image
        computed = max(pair.final, real.computed)
        image.given = max(image.given, image.prompt_len - image.cached_tokens, computed - image.cached_tokens)
        if pair.final < 0 and real.row >= 0:
            if image.lease is None:
                self._lease(image)
            self._compute(image, computed)
            return
        if image.lease is not None:
            self._compute(image, computed)
            self.memory.give_back(image, keep=True)
        if pair.final >= 0:
            self._queue.ended(image)
            del self.pairs[image.id]

    def _lease(self, image: Request) -> None:
        """Start from what is cached, and cache the whole prompt."""
        self.memory.lease(image)
        self._compute(image, image.prompt_len)
        self.memory.share(image)

    def _compute(self, image: Request, known: int) -> None:
        """Give ``image`` slots for its first ``known`` tokens, as far as they are to be had."""
        count = self.memory.room(image, known - image.scheduled)
        if count > 0:
            self.memory.grow(image, count)
            image.computed = image.scheduled = image.scheduled + count


class Shadow:
    """A simulation as the scheduler knows it: a fault in it, which may be a third party's, ends it and nothing else.

    ``policy`` and ``cache`` are what its parts are called in figures and in the log.
    """

    def __init__(self, policy: str, cache: str, simulation: Simulation | None) -> None:
        self._policy = policy
        self._cache = cache
        self._simulation = simulation

    def arrived(self, request: Request) -> None:
        """``request`` waits in service; it is new."""
        self._tell(lambda simulation: simulation.arrived(request))

    def round(self, admitted: Sequence[Request]) -> None:
        """The service admitted these in one step."""
        self._tell(lambda simulation: simulation.round(admitted))

    def ended(self, request: Request) -> None:
        """The service is done with ``request``, and takes its memory next."""
        self._tell(lambda simulation: simulation.ended(request))

    def flushed(self) -> None:
        """The service forgot what was cached."""
        self._tell(Simulation.flushed)

    def check(self) -> None:
        """See to it that every slot of the simulation has one owner."""
        self._tell(Simulation.check)

    def stats(self) -> ShadowStats | None:
        """Figures so far; None when there are none to come."""
        return None if self._simulation is None else self._simulation.stats(self._policy, self._cache)

    def _tell(self, event: Callable[[Simulation], None]) -> None:
        if self._simulation is None:
            return
        try:
            event(self._simulation)
        except Exception:
            log.exception("the shadow %s/%s failed and is dropped; the service goes on", self._policy, self._cache)
            self._simulation = None


NO_SHADOW = Shadow("", "", None)
"""Hears everything and does nothing."""
