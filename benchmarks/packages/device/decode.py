"""Steps of the large model through the executor alone, by the least time that reading its weights takes."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from device.clock import Limits
from device.executors import make_executor
from device.rows import Report, Row, compared
from device.target import ModelShape, Sizes, Target
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.driver import Driver

DECODE_AIM = 0.85
WARM_UP = 16
"""By so much fewer steps than are timed go before."""


def run(target: Target, report: Report) -> None:
    sizes, limits = target.sizes, Limits.load(target.limits_file)
    many = sizes.sampled
    executor = make_executor(target.device)
    started = time.perf_counter()
    try:
        spec = ExecutorSpec(
            checkpoint=large_checkpoint(target),
            dtype="bfloat16",
            max_rows=many,
            max_step_tokens=many * sizes.start,
            kv_slots=many * (sizes.start + 2 * sizes.decode_steps),
        )
        driver = Driver(executor, spec)
        report(Row("loading the large model", value=time.perf_counter() - started, unit="s"))
        weights = next(line.bytes for line in driver.loaded.ledger if line.name == "weights")
        read = weights - embedding_bytes(sizes.model)
        for rows, aim in ((1, None if target.dry else DECODE_AIM), (many, None)):
            seconds = step_seconds(driver, rows, sizes)
            what = f"decode step of the large model, {rows} row{'s' * (rows > 1)}"
            achieved, limit = read / seconds / 1e9, limits.copy / 1e9
            note = f"{1e3 * seconds:.3g} ms a step, {rows / seconds:,.0f} tokens/s"
            report(compared(what, achieved, "GB/s", limit, "copy bandwidth", aim, note))
    finally:
        executor.close()


def large_checkpoint(target: Target) -> Checkpoint:
    """The large model on disk."""
    model = target.sizes.model
    return Checkpoint("large", str(Path(target.large_model)), model.context, model.vocab, ())


def embedding_bytes(model: ModelShape) -> int:
    """What a step does not read of the weights, in bfloat16: all but a few lines of the embedding."""
    return model.vocab * model.hidden * torch.bfloat16.itemsize


def step_seconds(driver: Driver, count: int, sizes: Sizes) -> float:
    """Seconds of one step of ``count`` rows that each compute one token, when steps are planned ahead."""
    vocabulary = driver.loaded.vocab_size
    random = torch.Generator().manual_seed(count)
    rows = [driver.admit(torch.randint(vocabulary, (sizes.start,), generator=random).tolist()) for _ in range(count)]
    driver.step({row: row.pending for row in rows})
    driver.decode_ahead(rows, max(1, sizes.decode_steps // WARM_UP))
    started = time.perf_counter()
    driver.decode_ahead(rows, sizes.decode_steps)
    seconds = (time.perf_counter() - started) / sizes.decode_steps
    for row in rows:
        driver.release(row)
    return seconds
