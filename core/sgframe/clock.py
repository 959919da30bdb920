"""The scheduler's clock: moved once a step by whoever drives the scheduler, so that replayed steps see the same times."""

from __future__ import annotations


class StepClock:
    """Seconds from any start; ``clock()`` reads it. It stands still within a step and never goes back."""

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
