"""Many runs over one trace, in parallel processes. Knows setups and outcomes, not what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawArray
from typing import Any

from sgframe.errors import ConfigError, SgframeError
from sgframe_simulator.bounds import belady_hit_rate, infinite_hit_rate
from sgframe_simulator.parts import eviction_of
from sgframe_simulator.simulation import Outcome, Setup, simulate
from sgframe_simulator.trace import Trace

POLL = 0.1
"""Seconds between two looks at the progress of the other processes."""

Progress = Callable[[int], None]
"""Called with the number of requests that have ended, over all runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """A setup, what it came to, and what no cache of its size beats in the trace's order, in percent."""

    setup: Setup
    outcome: Outcome
    infinite_hit_rate: float
    belady_hit_rate: float

    def row(self) -> dict[str, Any]:
        """Plain data for JSON and tables. ``eviction`` is None for a cache without a choice of strategy."""
        return {
            "policy": self.setup.policy.name,
            "cache": self.setup.cache.name,
            "eviction": eviction_of(self.setup.cache),
            "slots": self.setup.slots,
            **asdict(self.outcome),
            "infinite_hit_rate": self.infinite_hit_rate,
            "belady_hit_rate": self.belady_hit_rate,
        }


def sweep(trace: Trace, setups: Sequence[Setup], jobs: int = 1, progress: Progress = lambda _: None) -> list[Run]:
    """Simulate every setup in ``jobs`` processes (1: in this one). The runs are in the order of the setups.

    Raises ConfigError if a pool holds none of the prompts, SgframeError if a process dies.
    """
    for setup in setups:
        if not setup.block_level and trace.input_lengths.min() > setup.slots:
            shortest = trace.input_lengths.min()
            raise ConfigError(f"{setup.slots} slots hold no prompt of the trace, the shortest has {shortest} tokens")
    sizes = list(dict.fromkeys(setup.slots for setup in setups))
    if jobs == 1:
        outcomes = _one_by_one(trace, setups, progress)
        belady = [belady_hit_rate(trace, slots) for slots in sizes]
    else:
        outcomes, belady = _in_parallel(trace, setups, sizes, jobs, progress)
    infinite, by_size = infinite_hit_rate(trace), dict(zip(sizes, belady, strict=True))
    return [
        Run(setup, outcome, infinite, by_size[setup.slots]) for setup, outcome in zip(setups, outcomes, strict=True)
    ]


def _one_by_one(trace: Trace, setups: Sequence[Setup], progress: Progress) -> list[Outcome]:
    def simulate_one(place: int, setup: Setup) -> Outcome:
        return simulate(trace, setup, lambda ended: progress(place * len(trace) + ended))

    return [simulate_one(place, setup) for place, setup in enumerate(setups)]


def _in_parallel(
    trace: Trace, setups: Sequence[Setup], sizes: Sequence[int], jobs: int, progress: Progress
) -> tuple[list[Outcome], list[float]]:
    counts = RawArray("q", len(setups))
    with ProcessPoolExecutor(jobs, get_context("spawn"), _share_counts, (counts,)) as pool:
        runs = [pool.submit(_simulate, trace, setup, place) for place, setup in enumerate(setups)]
        belady = [pool.submit(belady_hit_rate, trace, slots) for slots in sizes]
        futures: list[Future[Any]] = [*runs, *belady]
        try:
            while wait(futures, POLL, FIRST_EXCEPTION).not_done and not any(map(_failed, futures)):
                progress(sum(counts))
            progress(sum(counts))
            return [run.result() for run in runs], [rate.result() for rate in belady]
        except BrokenProcessPool as error:
            raise SgframeError("a process that simulates died, of memory perhaps: lower --jobs") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _failed(future: Future[Any]) -> bool:
    return future.done() and future.exception() is not None


_counts: Any = None
"""In a process of the pool: by run, how many requests have ended; shared with its parent."""


def _share_counts(counts: Any) -> None:
    global _counts  # noqa: PLW0603 - what a pool's initializer is for
    _counts = counts


def _simulate(trace: Trace, setup: Setup, place: int) -> Outcome:
    return simulate(trace, setup, lambda ended: _counts.__setitem__(place, ended))
