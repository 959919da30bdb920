"""How far each rank is, and which of them holds up the others. Knows nothing of how that is told between the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BETWEEN = -1
"""The step of a rank that is in none: it waits for the scheduler, or for rank 0 to tell of the next one."""


@dataclass(slots=True)
class Pace:
    """Where this rank is: written by the thread that executes, read by the one that watches.

    A collective counts ``entered`` up before it may block. Every rank enters the same ones in the same order, so whoever
    has entered the fewest holds up the others.
    """

    step: int = BETWEEN
    entered: int = 0


@dataclass(slots=True)
class Standing:
    """A rank as rank 0 knows it: ``entered`` collectives so far, and in ``step`` since that second of rank 0's clock."""

    name: str
    step: int = BETWEEN
    since: float = 0.0
    entered: int = 0

    def see(self, step: int, entered: int, now: float) -> None:
        """Take in where the rank says it is."""
        if step != self.step:
            self.step, self.since = step, now
        self.entered = entered

    def __str__(self) -> str:
        return self.name


def standstill(ranks: Sequence[Standing], now: float, timeout: float) -> str:
    """Who holds up a step that has taken longer than ``timeout`` seconds; empty when none has."""
    overdue = [rank for rank in ranks if rank.step != BETWEEN and now - rank.since > timeout]
    if not overdue:
        return ""
    fewest = min(rank.entered for rank in ranks)
    most = max(rank.entered for rank in ranks)
    late = [rank for rank in ranks if rank.entered == fewest]
    if fewest == most:
        who = f"all ranks stand still: {_where(overdue[0], now)}, with {most} collectives entered by each"
    else:
        who = "; ".join(
            f"{rank} stands still: {_where(rank, now)}, {most - fewest} collectives behind" for rank in late
        )
    return f"{who}. If a step may take longer than {timeout:g} s, raise --step-timeout"


def _where(rank: Standing, now: float) -> str:
    return "between steps" if rank.step == BETWEEN else f"in step {rank.step} for {now - rank.since:.1f} s"
