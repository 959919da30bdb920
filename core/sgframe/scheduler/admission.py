"""Admission: the order in which requests are considered, and how much memory to keep for those that run."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy
from sgframe.scheduler.request import Request

log = logging.getLogger(__name__)


def headroom(request: Request, most: int) -> int:
    """Slots its output will want soon, counted up to ``most``."""
    return min(request.remaining, most)


def uncomputed(request: Request) -> int:
    """Slots its known tokens still need."""
    return len(request.tokens) - len(request.slots)


def arrival_order(waiting: list[Request], policy: Policy, cache: CacheView) -> Sequence[Request]:
    """``waiting`` as ``policy`` orders it; in order of arrival if it raises, or loses, repeats or invents a request."""
    try:
        order = policy.order(waiting, cache)
        if sorted(request.id for request in order) == [request.id for request in waiting]:
            return order  # type: ignore[return-value]  # the same objects, seen through the policy's protocol
        fault = "did not return each waiting request exactly once"
    except Exception as error:  # a plugin's code: its fault must not end the service
        fault = f"raised {error!r}"
    log.error("policy %s %s; taking requests in order of arrival", type(policy).__name__, fault)
    return waiting
