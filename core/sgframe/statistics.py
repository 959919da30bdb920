"""What a scheduler tells of itself, as plain figures."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class ShadowStats(msgspec.Struct, frozen=True):
    """How a second policy and cache fare, on the prompts that they and the service have admitted by now.

    ``policy`` and ``cache`` are their names, with what was set of them. ``overtaken`` is the most that a request had
    been overtaken by, in tokens, when it was admitted. ``service_…`` is the same of the service.
    """

    policy: str
    cache: str
    prompt_tokens: int
    cached_tokens: int
    service_cached_tokens: int
    overtaken: int
    service_overtaken: int


class SchedulerStats(msgspec.Struct, frozen=True):
    """Gauges and counters of the scheduler at a step border; counters run from the start."""

    steps: int = 0
    running: int = 0
    waiting: int = 0
    slots: int = 0
    slots_free: int = 0
    slots_cached: int = 0
    slots_leased: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    forced_tokens: int = 0
    guessed_tokens: int = 0
    accepted_tokens: int = 0
    """Of those guessed, the ones that proved right."""
    retractions: int = 0
    evicted_tokens: int = 0
    step_seconds: float = 0.0
    """Scheduler time per step, exponentially smoothed, without waiting for the worker."""
    leases: int = 0
    """Prefixes kept for programs; ``lease_tokens`` in all, ``leases_revoked`` of them for want of memory, room or time."""
    lease_tokens: int = 0
    leases_revoked: int = 0
    shadow: ShadowStats | None = None


@dataclass(slots=True)
class Counters:
    """Sums since the start, named as in SchedulerStats."""

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    forced_tokens: int = 0
    guessed_tokens: int = 0
    accepted_tokens: int = 0
    retractions: int = 0
