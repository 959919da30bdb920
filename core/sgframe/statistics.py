"""What a scheduler tells of itself, as plain figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

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


_COUNTERS = {"evicted_tokens", "leases_revoked"}
"""Those that are not in Counters."""


def combined(stats: Sequence[SchedulerStats]) -> SchedulerStats:
    """Several schedulers' as those of one: sums, and of ``step_seconds`` the most."""
    names = [name for name in SchedulerStats.__struct_fields__ if name != "shadow"]
    summed = {name: sum(getattr(each, name) for each in stats) for name in names}
    summed["step_seconds"] = max(each.step_seconds for each in stats)
    shadows = [each.shadow for each in stats if each.shadow is not None]
    return SchedulerStats(**summed, shadow=_shadows_combined(shadows) if shadows else None)


def _shadows_combined(shadows: Sequence[ShadowStats]) -> ShadowStats:
    summed = {name: sum(getattr(each, name) for each in shadows) for name in ShadowStats.__struct_fields__[2:]}
    most = {name: max(getattr(each, name) for each in shadows) for name in ("overtaken", "service_overtaken")}
    return msgspec.structs.replace(shadows[0], **(summed | most))


def past(stats: SchedulerStats) -> SchedulerStats:
    """What remains of a scheduler that is gone: its counters."""
    kept = {name: getattr(stats, name) for name in {*(field.name for field in fields(Counters)), *_COUNTERS}}
    return SchedulerStats(**kept, shadow=stats.shadow)
