"""What bounds a scheduler, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LeaseLimits:
    """What may be kept for programs at once: ``count`` leases, of ``tokens`` together (tokens that several of them keep
    count for each), for ``seconds`` each."""

    count: int = 1024
    tokens: int = 0
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step.

    Attributes:
        slots: KV slots in all.
        max_running: rows that run at once.
        max_step_tokens: tokens computed in one step; at least ``max_running``, so that every row can decode.
        page_size: slots are handed out in pages of this many.
        leases: what is kept for programs; by default nothing.
    """

    slots: int
    max_running: int
    max_step_tokens: int
    page_size: int = 1
    leases: LeaseLimits = field(default_factory=LeaseLimits)
