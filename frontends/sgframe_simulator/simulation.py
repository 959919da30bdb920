"""One run: the scheduler that serves, driven through a trace by a virtual clock. Knows no file, terminal or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from sgframe.assembly.choice import Choice
from sgframe.clock import StepClock
from sgframe.errors import SgframeError
from sgframe.messages import GenerateRequest, Ints, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe_simulator.arrivals import Arrivals, ClosedLoop, OpenLoop
from sgframe_simulator.costs import Costs
from sgframe_simulator.device import VirtualDevice
from sgframe_simulator.merging import only_decodes, skip, steps_until_change
from sgframe_simulator.trace import Trace, repeated


@dataclass(frozen=True, slots=True)
class Setup:
    """All that decides a run's figures, beside the trace.

    Attributes:
        users: requests in flight in a closed loop; 0: an open loop, ``rate`` times as fast as the trace.
        block_level: as studies of caches count: prompts alone, in whole blocks, one at a time, in no time at the times of
            the trace. A last block that is not whole counts as one, and a prompt longer than the cache enters it as far as
            it goes.
        every_step: no decode steps are merged (see merging).
    """

    policy: Choice
    cache: Choice
    slots: int
    page_size: int = 1
    max_running: int = 256
    max_step_tokens: int = 8192
    admission: str = "ratio"
    costs: Costs = field(default_factory=Costs)
    users: int = 64
    rate: float = 1.0
    block_level: bool = False
    every_step: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. ``hit_rate`` is in percent of prompt tokens; times are in seconds, virtual but for the last."""

    requests: int
    refused: int
    hit_rate: float
    ttft_p50: float
    ttft_p99: float
    max_wait: float
    seconds: float
    steps: int
    retractions: int
    evicted_tokens: int
    wall_seconds: float


def simulate(trace: Trace, setup: Setup, progress: Callable[[int], None] = lambda _: None) -> Outcome:
    """Run ``trace`` through; ``progress(ended)`` is called as requests end. The same arguments give the same outcome."""
    started = time.perf_counter()
    simulation = Simulation(trace, setup)
    simulation.run(progress)
    return simulation.outcome(time.perf_counter() - started)


class Simulation:
    """A scheduler, its virtual device, and what was seen of each request."""

    def __init__(self, trace: Trace, setup: Setup) -> None:
        self._trace = trace
        self._setup = setup
        self._page = trace.block if setup.block_level else setup.page_size
        self._whole_pages = setup.slots // self._page
        self._scheduler = self._build_scheduler()
        outputs = np.zeros_like(trace.output_lengths) if setup.block_level else trace.output_lengths
        self._outputs: list[int] = outputs.tolist()
        self._device = VirtualDevice(setup.max_running, trace.own_token(0))
        self._arrivals: Arrivals = ClosedLoop(trace, setup.users) if setup.users else OpenLoop(trace, setup.rate)
        self._now = 0.0
        self._ended = self._refused = 0
        self._arrived, self._admitted, self._answered = (np.full(len(trace), np.nan) for _ in range(3))
        self._hits = np.zeros(len(trace), dtype=np.int64)

    def _build_scheduler(self) -> Scheduler:
        """At block level a request has room of its own, and a page for the token that follows its last block (see
        ``_prompt``); what it leaves is cut to the cache's size by ``_trim``."""
        setup = self._setup
        clock = StepClock()
        pages = self._whole_pages * (1 + setup.block_level) + setup.block_level
        longest = int(self._trace.input_lengths.max()) + 2 * self._page
        limits = Limits(
            slots=pages * self._page,
            max_running=setup.max_running,
            max_step_tokens=longest if setup.block_level else setup.max_step_tokens,
            page_size=self._page,
        )
        cache = setup.cache.build(page_size=self._page, clock=clock)
        return Scheduler(limits, cache, setup.policy.build(), ESTIMATORS[setup.admission](self._page), clock)

    def run(self, progress: Callable[[int], None]) -> None:
        """Until every request has ended. Raises SgframeError if the scheduler stops before."""
        while self._ended < len(self._trace):
            for request, arrived in self._arrivals.due(self._now):
                self._submit(request, arrived)
            batch = self._scheduler.plan(self._now)
            if batch is not None:
                self._execute(batch)
            elif self._arrivals.next_time < inf:
                self._now = max(self._now, self._arrivals.next_time)
            elif not self._scheduler.outbox:
                waiting = len(self._scheduler.waiting)
                raise SgframeError(
                    f"the scheduler stands still with {waiting} requests waiting: its parts are at fault"
                )
            self._take_outputs()
            if self._setup.block_level:
                self._trim()
            progress(self._ended)

    def _trim(self) -> None:
        """Once a request has ended: evict what the cache holds beyond its size."""
        memory = self._scheduler.memory
        excess = memory.cache.stats().evictable - self._whole_pages * self._page
        if excess > 0 and self._scheduler.idle:
            memory.pool.give_back(memory.cache.evict(excess))

    def _submit(self, request: int, arrived: float) -> None:
        if self._setup.block_level:
            arrived = self._now = max(self._now, float(self._trace.arrivals[request]))
        self._arrived[request] = arrived
        sampling = TokenSampling(seed=request)
        message = GenerateRequest(request, self._prompt(request), self._outputs[request], ints(), sampling)
        self._scheduler.add(message)

    def _prompt(self, request: int) -> Ints:
        """At block level with one token more, for the last of a prompt is computed in any case and never found cached."""
        trace = self._trace
        if not self._setup.block_level:
            return trace.prompt(request)
        blocks = trace.blocks_of(request)[: self._whole_pages]
        return repeated(blocks, trace.block, len(blocks) * trace.block) + ints([trace.own_token(request)])

    def _execute(self, batch: ScheduleBatch) -> None:
        for new in batch.admitted:
            request = new.sampling.seed
            if np.isnan(self._admitted[request]):
                self._admitted[request] = self._now
        work = self._device.execute(batch)
        seconds = 0.0 if self._setup.block_level else self._setup.costs.seconds(work)
        if not (self._setup.every_step or self._setup.block_level) and only_decodes(batch):
            until_arrival = self._arrivals.next_time - self._now
            ahead = steps_until_change(self._scheduler, seconds, until_arrival) - 1
            skipped = skip(self._scheduler, ahead, self._trace.own_token)
            self._device.skip(batch, skipped)
            seconds = self._setup.costs.seconds(work, 1 + skipped)
        self._now += seconds
        self._scheduler.apply(work.output)

    def _take_outputs(self) -> None:
        outputs, self._scheduler.outbox = self._scheduler.outbox, []
        for output in outputs:
            if output.cache is not None:  # in the first of each request
                self._answered[output.id] = self._now
                self._hits[output.id] = min(output.cached_tokens, self._trace.input_lengths[output.id])
            if output.finish is not None:
                self._ended += 1
                self._refused += output.finish.reason == "error"
                self._arrivals.ended()

    def outcome(self, wall_seconds: float) -> Outcome:
        """What the run came to, over all requests that were not refused."""
        served = ~np.isnan(self._answered)
        ttft = (self._answered - self._arrived)[served]
        stats = self._scheduler.stats()
        return Outcome(
            requests=len(self._trace),
            refused=self._refused,
            hit_rate=100 * int(self._hits.sum()) / int(self._trace.input_lengths[served].sum()),
            ttft_p50=float(np.percentile(ttft, 50)),
            ttft_p99=float(np.percentile(ttft, 99)),
            max_wait=float((self._admitted - self._arrived)[served].max()),
            seconds=self._now,
            steps=stats.steps,
            retractions=stats.retractions,
            evicted_tokens=stats.evicted_tokens,
            wall_seconds=wall_seconds,
        )
