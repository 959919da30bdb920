"""Workloads through the engine, all its processes included: time to the first token, tokens a second, idle device."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import torch

from device.rows import FAILED, Report, Row, bounded, checked
from device.target import Load, Target
from device.watched import announce
from sgframe import Engine, SamplingParams

IDLE_AIM = 50.0
"""Microseconds between two steps at steady decode."""


@dataclass(frozen=True, slots=True)
class Served:
    """One request: seconds to its first token and to its last, and its tokens."""

    first: float
    last: float
    tokens: list[int]


def run(target: Target, report: Report) -> None:
    """The large model at several loads; then again, while its device is watched."""
    idle, begin = target.folder / "idle", target.folder / "begin"
    seeds = count()
    with start(target, watched={"device": target.device, "file": str(idle), "begin": str(begin)}) as engine:
        for name, load in target.sizes.loads.items():
            serve(engine, prompts(target, load, next(seeds)), load.output)  # not measured
            started = time.perf_counter()
            answers = serve(engine, prompts(target, load, next(seeds)), load.output)
            for row in load_rows(name, load, answers, time.perf_counter() - started):
                report(row)
        begin.touch()
        for load in target.sizes.loads.values():
            serve(engine, prompts(target, load, next(seeds)), load.output)
    for row in idle_rows(idle, aim=None if target.dry else IDLE_AIM):
        report(row)


def start(target: Target, watched: dict[str, Any] | None = None) -> Engine:
    """The large model behind the engine; with the settings in ``watched`` its device is watched."""
    loads = target.sizes.loads.values()
    most = max(load.requests for load in loads)
    settings: dict[str, Any] = {
        "model": str(target.large_model),
        "grammar": "none",
        "dtype": "bfloat16",
        "max_running": most,
        "max_step_tokens": max(512, 128 * most),
        "context_length": target.sizes.model.context,
        "kv_slots": 4 * sum(load.requests * (load.prompt + load.output) for load in loads),
    }
    if watched is None:
        return Engine(backend=target.device, **settings)
    announce(target.folder / "plugins")
    sys.path.append(str(target.folder / "plugins"))
    steps = min(load.output for load in loads) // 4
    return Engine(backend="watched", plugin={"watched": {"skip": steps, "steps": steps, **watched}}, **settings)


def prompts(target: Target, load: Load, seed: int) -> list[list[int]]:
    """Token ids at random, so that none has a beginning in common with another."""
    random = torch.Generator().manual_seed(seed)
    texts: list[list[int]] = torch.randint(
        target.sizes.model.vocab, (load.requests, load.prompt), generator=random
    ).tolist()
    return texts


def serve(engine: Engine, texts: Sequence[list[int]], output: int) -> list[Served]:
    """All at once, greedy, ``output`` tokens each."""
    return engine.run_coroutine(_serve(engine, texts, output)).result()


async def _serve(engine: Engine, texts: Sequence[list[int]], output: int) -> list[Served]:
    params = SamplingParams(max_tokens=output, temperature=0, ignore_eos=True)
    return list(await asyncio.gather(*(_one(engine, text, params) for text in texts)))


async def _one(engine: Engine, text: list[int], params: SamplingParams) -> Served:
    sent = time.perf_counter()
    first = 0.0
    tokens: list[int] = []
    async with await engine.asynchronous.submit(text, params) as generation:
        async for delta in generation:
            first = first or time.perf_counter() - sent
            tokens += delta.tokens
    return Served(first, time.perf_counter() - sent, tokens)


def load_rows(name: str, load: Load, answers: Sequence[Served], seconds: float) -> list[Row]:
    """What a load came to. Of one request, tokens count from the first to the last; of several, all, from the first
    sent."""
    count = sum(len(answer.tokens) for answer in answers)
    if count != load.requests * load.output:
        return [checked(f"served, {name}", f"{count} tokens came, {load.requests * load.output} should")]
    what = f"{load.prompt} + {load.output} tokens"
    if load.requests == 1:
        (answer,) = answers
        rate = (count - 1) / (answer.last - answer.first)
    else:
        rate = count / seconds
    first = median(answer.first for answer in answers)
    return [
        Row(f"served, {name}", value=rate, unit="tokens/s", note=what),
        Row(f"time to the first token, {name}", value=1000 * first, unit="ms", note="median" * (len(answers) > 1)),
    ]


def idle_rows(file: Path, aim: float | None) -> list[Row]:
    """How long the device stood idle between two steps, for each number of rows."""
    if not file.exists():
        return [Row("idle between steps", FAILED, note="no steps were watched")]
    rows = []
    for line in file.read_text().splitlines():
        found = json.loads(line)
        what = f"idle between steps, {found['rows']} decoding"
        if found["idle"] is None:
            rows.append(Row(what, FAILED, note="the profiler saw no work on the device"))
        else:
            note = f"{found['pieces']} pieces of work seen"
            rows.append(bounded(what, 1e6 * found["idle"], "µs a step", aim, note))
    return rows
