"""What tensor parallelism costs and gains on processor cores: one model on one rank and on several, in one run.

The model is random, of a small Llama's shape, so that any number of ranks up to 8 can share it. Medians; ratios are to one
rank with one thread.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import torch
import transformers

from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.driver import Driver
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor

SHAPE = {
    "vocab_size": 32768,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
PROMPT, ROWS = 256, 16
WARM_STEPS, STEPS = 5, 40


@dataclass(frozen=True)
class Figures:
    """Seconds of a decode step of one row and of ROWS, and of a step that computes PROMPT tokens."""

    one: float
    many: float
    prompt: float


def measure(ranks: Ranks, threads: int, spec: ExecutorSpec) -> Figures | None:
    """What this rank measures; only rank 0 has a clock."""
    executor = CpuExecutor(CpuSettings(threads=threads))
    try:
        if ranks.size > 1:
            executor.join(ranks, lambda reason: None)
        if ranks.rank:
            executor.load(spec, lambda what, done, total: None)
            executor.follow()
            return None
        return _drive(Driver(executor, spec))
    finally:
        executor.close()


def _drive(driver: Driver) -> Figures:
    prompts, rows = [], []
    for salt in range(ROWS):
        row = driver.admit([(7 * i * (salt + 1)) % SHAPE["vocab_size"] for i in range(PROMPT)])
        started = time.perf_counter()
        driver.prefill(row)
        prompts.append(time.perf_counter() - started)
        rows.append(row)
    steps = []
    for chosen in (rows[:1], rows):
        driver.decode(chosen, WARM_STEPS)
        seconds = []
        for _ in range(STEPS):
            started = time.perf_counter()
            driver.decode(chosen, 1)
            seconds.append(time.perf_counter() - started)
        steps.append(statistics.median(seconds))
    return Figures(steps[0], steps[1], statistics.median(prompts[1:]))


def run(size: int, threads: int, spec: ExecutorSpec) -> Figures:
    """``size`` ranks, each a fresh process with ``threads`` threads."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(size) as pool:
        work = [(Ranks(rank=rank, size=size, folder=folder), threads, spec) for rank in range(size)]
        figures = pool.starmap(measure, work, chunksize=1)[0]
    assert figures is not None
    return figures


@click.command()
@click.option("--ranks", default="1,2", show_default=True, help="Numbers of ranks to compare.")
@click.option("--threads", default=0, help="Threads in all; 0: as many as there are cores.")
@click.option("--dtype", default="auto", show_default=True)
def main(ranks: str, threads: int, dtype: str) -> None:
    """Compare one rank, with one thread and with all, to several that share the threads."""
    cores = threads or len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE)).to(torch.bfloat16).save_pretrained(folder)
        checkpoint = Checkpoint("random", str(Path(folder)), SHAPE["max_position_embeddings"], SHAPE["vocab_size"], ())
        spec = ExecutorSpec(checkpoint, dtype, max_rows=ROWS, max_step_tokens=PROMPT, kv_slots=2 * ROWS * PROMPT)
        sizes = [int(size) for size in ranks.split(",")]
        cases = dict.fromkeys([(1, 1), *((size, max(1, cores // size)) for size in sizes)])
        base: Figures | None = None
        click.echo(f"{'ranks × threads':>16} {'ms, 1 row':>14} {f'tokens/s, {ROWS} rows':>20} {'prompt tokens/s':>20}")
        for size, each in cases:
            found = run(size, each, spec)
            base = base or found
            click.echo(
                f"{f'{size} × {each}':>16} {_cell(1000 * found.one, base.one / found.one):>14} "
                f"{_cell(ROWS / found.many, base.many / found.many):>20} "
                f"{_cell(PROMPT / found.prompt, base.prompt / found.prompt):>20}"
            )


def _cell(figure: float, ratio: float) -> str:
    return f"{figure:.1f} ({ratio:.2f}×)"


if __name__ == "__main__":
    main()
