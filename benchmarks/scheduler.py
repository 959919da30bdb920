"""Measures what the scheduler costs, on the simulated backend: ``python benchmarks/scheduler.py --help``."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from random import Random
from statistics import median, quantiles

import msgspec
from drive.machine import Machine, this_machine

from sgframe import Engine, SamplingParams
from sgframe.assembly.assemble import assemble
from sgframe.assembly.providers import Seam
from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.messages import Decoder, FrontMessage, GenerateRequest, TokenOutputs, WorkerMessage, encode, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import SchedulerSpec, build

SIMULATED = {"backend": "simulated", "source": "simulated", "model": "simulated"}
MAX_STEP_TOKENS = 512
WARM_UP_STEPS = 200


class Microseconds(msgspec.Struct, frozen=True):
    median: float
    p99: float

    @classmethod
    def of(cls, seconds: list[float]) -> Microseconds:
        return cls(1e6 * median(seconds), 1e6 * quantiles(seconds, n=100, method="inclusive")[98])

    def __str__(self) -> str:
        return f"{self.median:>9.0f} {self.p99:>6.0f}"


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """Of one step: ``messages`` is decoding and encoding what comes and goes, ``total`` the sum."""

    load: str
    running: float  # on average
    plan: Microseconds
    apply: Microseconds
    messages: Microseconds
    total: Microseconds


class EndToEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The engine with its processes: ``step_us`` by the clock, of which the scheduler was busy for ``scheduler_us``."""

    tokens_per_second: float
    step_us: float
    scheduler_us: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    running: int
    steps: int
    step_costs: list[StepCost]
    end_to_end: EndToEnd


# ------------------------------------------------------------------------------------------ one process, step by step


def decoding(running: int, steps: int) -> Iterator[GenerateRequest]:
    """As many requests as run at once, none of which ends."""
    random = Random(0)
    for id in range(running):
        yield _request(id, random.choices(range(256), k=100), WARM_UP_STEPS + steps + 1)


def arriving() -> Iterator[GenerateRequest]:
    """Requests without end, each with one of eight 1,000-token prefixes, 30 tokens of its own and 16 to 128 of output."""
    random = Random(0)
    prefixes = [random.choices(range(256), k=1000) for _ in range(8)]
    for id in count():
        yield _request(id, random.choice(prefixes) + random.choices(range(256), k=30), random.randint(16, 128))


def _request(id: int, tokens: list[int], max_tokens: int) -> GenerateRequest:
    return GenerateRequest(id, ints(tokens), max_tokens, ints(), TokenSampling(seed=0, temperature=0))


class Stepper:
    """A scheduler and a simulated device in one process. ``open`` requests are always waiting or running, while
    ``requests`` last. The device's own time is not counted."""

    def __init__(
        self, requests: Iterator[GenerateRequest], *, running: int, open: int, slots: int, parts: dict[str, str]
    ) -> None:
        _, choices = assemble(SIMULATED | parts, None, {})
        checkpoint = choices[Seam.SOURCE].build().resolve(SIMULATED["model"], lambda what, done, total: None)
        self._device: Executor = choices[Seam.BACKEND].build().executor()
        spec = ExecutorSpec(checkpoint, "auto", running, MAX_STEP_TOKENS, kv_slots=slots)
        loaded = self._device.load(spec, lambda *progress: None)
        limits = Limits(loaded.slots, running, MAX_STEP_TOKENS, loaded.page_size)
        self.scheduler = build(SchedulerSpec(limits, choices[Seam.CACHE], choices[Seam.POLICY], "ratio"), Scheduler)
        self._requests = requests
        self._missing = open
        self._decode_front: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._decode_worker: Decoder[WorkerMessage] = Decoder(WorkerMessage)

    def step(self) -> tuple[float, float, float]:
        """One step; returns the seconds for plan, apply and messages."""
        arrivals = [encode(request) for _, request in zip(range(self._missing), self._requests, strict=False)]
        watch = Stopwatch()
        for frame in arrivals:
            self.scheduler.add(self._decode_front(frame))  # type: ignore[arg-type]  # requests only
        messages = watch.lap()
        batch = self.scheduler.plan(time.perf_counter())
        plan = watch.lap()
        assert batch is not None
        encode(batch)
        messages += watch.lap()
        self._device.forward(batch)
        frame = encode(self._device.sample(None).result())
        watch.lap()
        output = self._decode_worker(frame)
        messages += watch.lap()
        self.scheduler.apply(output)  # type: ignore[arg-type]  # a simulated step does not fail
        apply = watch.lap()
        encode(TokenOutputs(self.scheduler.outbox))
        messages += watch.lap()
        self._missing = sum(output.finish is not None for output in self.scheduler.outbox)
        self.scheduler.outbox = []
        return plan, apply, messages


class Stopwatch:
    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call, or the start."""
        now = time.perf_counter()
        self._last, lap = now, now - self._last
        return lap


def step_cost(load: str, stepper: Stepper, steps: int) -> StepCost:
    for _ in range(WARM_UP_STEPS):
        stepper.step()
    gc.collect()
    gc.freeze()  # as the scheduler's process does
    running, costs = [], []
    for _ in range(steps):
        costs.append(stepper.step())
        running.append(len(stepper.scheduler.running))
    stepper.scheduler.check()
    plan, apply, messages = (Microseconds.of(list(column)) for column in zip(*costs, strict=True))
    total = Microseconds.of([sum(cost) for cost in costs])
    return StepCost(load=load, running=sum(running) / steps, plan=plan, apply=apply, messages=messages, total=total)


# ------------------------------------------------------------------------------------------ the engine, end to end


def end_to_end(running: int, steps: int, parts: dict[str, str]) -> EndToEnd:
    random = Random(1)
    prompts = [random.choices(range(256), k=100) for _ in range(running)]
    params = SamplingParams(max_tokens=steps, temperature=0, ignore_eos=True)
    with Engine(**SIMULATED, **parts, max_running=running, max_step_tokens=MAX_STEP_TOKENS) as engine:
        engine.generate(prompts, SamplingParams(max_tokens=8, temperature=0, ignore_eos=True))
        before = engine.stats().steps
        started = time.perf_counter()
        results = engine.generate(prompts, params)
        seconds = time.perf_counter() - started
        time.sleep(0.5)  # the last report of the scheduler comes once it is idle
        stats = engine.stats()
    tokens = sum(len(result.outputs[0].tokens) for result in results)
    return EndToEnd(
        tokens_per_second=tokens / seconds,
        step_us=1e6 * seconds / (stats.steps - before),
        scheduler_us=1e6 * stats.step_seconds,
    )


def main() -> None:
    options = _parser().parse_args()
    running, steps = options.running, options.steps
    parts = {"cache": options.cache, "policy": options.policy}
    slots = running * (1200 + WARM_UP_STEPS + steps)  # each row has room, and what has ended is evicted in time
    make = partial(Stepper, running=running, slots=slots, parts=parts)
    loads = {
        "decode only": make(decoding(running, steps), open=running),
        f"arrivals, {running} waiting": make(arriving(), open=2 * running),
    }
    report = Report(
        machine=this_machine(),
        running=running,
        steps=steps,
        step_costs=[step_cost(load, stepper, steps) for load, stepper in loads.items()],
        end_to_end=end_to_end(running, steps, parts),
    )
    print(msgspec.json.encode(report).decode() if options.json else _table(report, parts))


def _table(report: Report, parts: dict[str, str]) -> str:
    engine = report.end_to_end
    return "\n".join(
        [
            f"{report.machine}; cache {parts['cache']}, policy {parts['policy']}",
            f"µs a step at {report.running} running, median and 99th percentile of {report.steps} steps:",
            f"{'':<24}" + "".join(f"{part:>17}" for part in ("plan", "apply", "messages", "total", "running")),
            *(
                f"{cost.load:<24}"
                + "".join(f" {part}" for part in (cost.plan, cost.apply, cost.messages, cost.total))
                + f"{cost.running:>17.1f}"
                for cost in report.step_costs
            ),
            f"engine, end to end: {engine.tokens_per_second:,.0f} tokens/s, {engine.step_us:,.0f} µs a step, "
            f"of which the scheduler {engine.scheduler_us:,.0f}",
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Time the scheduler's part of each step, with all slots held by running requests and with requests "
        "that come and go, in one process; then the engine with all its processes. The device is simulated."
    )
    add = parser.add_argument
    add("--running", type=int, default=64, help="requests that run at once (%(default)s)")
    add("--steps", type=int, default=1000, help="steps that are timed (%(default)s)")
    add("--cache", default="radix", help="prefix cache (%(default)s)")
    add("--policy", default="lpm", help="scheduling policy (%(default)s)")
    add("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
