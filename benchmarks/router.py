"""Replays a trace on replicas behind the router, round robin, and one big cache: ``python benchmarks/router.py --help``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import cycle
from math import inf
from pathlib import Path

import msgspec
import numpy as np

from sgframe.clock import StepClock
from sgframe.front.router import Route, Router
from sgframe.messages import GenerateRequest, Ints, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe_simulator.costs import Costs
from sgframe_simulator.device import VirtualDevice
from sgframe_simulator.merging import only_decodes, skip, steps_until_change
from sgframe_simulator.parts import Pair, Shelf
from sgframe_simulator.trace import Trace
from sgframe_simulator.trace_files import load_trace

MAX_RUNNING = 256


class Row(msgspec.Struct, frozen=True):
    """``hit_rate``: percent of prompt tokens. ``ttft``: seconds. ``busiest``: its share of the tokens that were computed."""

    way: str
    hit_rate: float
    ttft_p50: float
    ttft_p99: float
    busiest: float
    route_us: float


class Replica:
    """A scheduler and its virtual device, with a clock of their own."""

    def __init__(self, trace: Trace, parts: Pair, slots: int, tell: Callable[[int, bool], None]) -> None:
        clock = StepClock()
        limits = Limits(slots=slots, max_running=MAX_RUNNING, max_step_tokens=8192, page_size=1)
        cache = parts.cache.build(page_size=1, clock=clock)
        self._scheduler = Scheduler(limits, cache, parts.policy.build(), ESTIMATORS["ratio"](1), clock)
        self._device = VirtualDevice(MAX_RUNNING, trace.own_token(0))
        self._trace = trace
        self._tell = tell
        self._costs = Costs()
        self.now = 0.0
        self.computed = 0
        self.first: dict[int, tuple[float, int]] = {}
        """By request: when its first token came, and how many tokens of its prompt were cached."""

    def submit(self, request: int, prompt: Ints) -> None:
        output = int(self._trace.output_lengths[request])
        self._scheduler.add(GenerateRequest(request, prompt, output, ints(), TokenSampling(seed=request)))

    def advance(self, until: float) -> None:
        """Work until then, or until nothing is left; a step that has begun is finished."""
        while self.now < until:
            batch = self._scheduler.plan(self.now)
            if batch is None and not self._scheduler.outbox:
                break
            if batch is not None:
                self._execute(batch, until)
            self._hand_out()
        self.now = max(self.now, until if until < inf else 0.0)

    def _execute(self, batch: ScheduleBatch, until: float) -> None:
        work = self._device.execute(batch)
        self.computed += work.prefilled + work.decoding
        seconds = self._costs.seconds(work)
        if only_decodes(batch):
            ahead = steps_until_change(self._scheduler, seconds, until - self.now) - 1
            skipped = skip(self._scheduler, ahead, self._trace.own_token)
            self._device.skip(batch, skipped)
            self.computed += work.decoding * skipped
            seconds = self._costs.seconds(work, 1 + skipped)
        self.now += seconds
        self._scheduler.apply(work.output)

    def _hand_out(self) -> None:
        outputs, self._scheduler.outbox = self._scheduler.outbox, []
        for output in outputs:
            if output.cache is not None:
                self.first[output.id] = (self.now, output.cached_tokens)
            self._tell(output.id, output.finish is not None)


def replay(trace: Trace, parts: Pair, slots: int, replicas: int, way: str) -> Row:
    """``slots`` in all, the same number for each replica."""
    routes: dict[int, Route] = {}
    router = Router([slots // replicas] * replicas)
    turns = cycle(range(replicas))

    def tell(request: int, ended: bool) -> None:
        if request in routes:
            (router.ended if ended else router.answered)(routes[request])

    crew = [Replica(trace, parts, slots // replicas, tell) for _ in range(replicas)]
    spent = 0.0
    for request in np.argsort(trace.arrivals, kind="stable").tolist():
        prompt = trace.prompt(request)
        for replica in crew:
            replica.advance(float(trace.arrivals[request]))
        if way == "round robin":
            chosen = next(turns)
        else:
            began = time.perf_counter()
            routes[request] = router.route(prompt, int(trace.output_lengths[request]))
            spent += time.perf_counter() - began
            chosen = routes[request].replica
        crew[chosen].submit(request, prompt)
    for replica in crew:
        replica.advance(inf)
    first = {request: each for replica in crew for request, each in replica.first.items()}
    waited = [moment - float(trace.arrivals[request]) for request, (moment, _) in first.items()]
    cached = sum(hit for _, hit in first.values())
    computed = [replica.computed for replica in crew]
    return Row(
        way,
        100 * cached / int(trace.input_lengths[list(first)].sum()),
        float(np.percentile(waited, 50)),
        float(np.percentile(waited, 99)),
        max(computed) / sum(computed),
        1e6 * spent / len(trace),
    )


def main() -> None:
    options = _parser().parse_args()
    trace = load_trace(options.trace)
    trace = trace.first(options.requests or len(trace))
    (parts,) = Shelf().pairs([options.policy], ["radix"])
    for slots in options.slots:
        rows = [
            replay(trace, parts, slots, 1, "one big cache"),
            replay(trace, parts, slots, options.replicas, "router"),
            replay(trace, parts, slots, options.replicas, "round robin"),
        ]
        print(f"{len(trace)} requests, {slots:,} slots in all, {options.replicas} replicas")
        print(
            f"{'':<16}{'hit rate %':>12}{'of one big':>12}{'TTFT p50':>10}{'p99':>10}{'busiest':>10}{'µs a route':>12}"
        )
        for row in rows:
            print(
                f"{row.way:<16}{row.hit_rate:>12.2f}{row.hit_rate / rows[0].hit_rate:>12.3f}{row.ttft_p50:>10.3f}"
                f"{row.ttft_p99:>10.3f}{row.busiest:>10.2f}{row.route_us:>12.0f}"
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Replay a trace by its timestamps on replicas that share so many KV slots, in virtual time: the router, "
        "round robin, and one server with all slots (and, in the times, the speed of one replica)."
    )
    add = parser.add_argument
    add("trace", type=Path, help="a file as sgframe simulate reads it")
    add("--replicas", type=int, default=4, help="(%(default)s)")
    add("--slots", type=_numbers, default=[512_000, 1_024_000], help="KV slots of all together (512000,1024000)")
    add("--policy", default="fcfs", help="(%(default)s)")
    add("--requests", type=int, default=0, help="the first so many; 0: all (%(default)s)")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
