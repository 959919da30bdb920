"""Times the kernels of recorded steps one by one, on threads of this process; no server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from profiles import CannotProfile
from profiles.kernel_report import Part
from profiles.work import Shape, Sizes, kind_of, linear_work, work_of
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import NewRow, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import NumbaCpuOps
from sgframe_cpu.launch import Walk
from sgframe_cpu.program import StepProgram
from sgframe_torch.config import read_config
from sgframe_torch.loading import Running, load
from sgframe_torch.parallel.group import ALONE
from sgframe_torch.rows import Step

Result = TypeVar("Result")

REPEATS = 8
"""Of which the best counts, for each kernel by itself."""

SHAPES = (
    Shape("row a, after 164", rows=1, context=164),
    Shape("row b, 16 after 164", rows=16, context=164),
    Shape("16 after 1,000", rows=16, context=1000),
    Shape("a prompt of 1,000", rows=1, context=0, new=1000),
)


class Replay:
    """The model of ``checkpoint`` in bfloat16, ready for steps of ``shapes``, on ``threads`` threads."""

    def __init__(self, checkpoint: Checkpoint, shapes: Sequence[Shape], threads: int) -> None:
        self._clock = time.thread_time if threads == 1 else time.perf_counter  # the former does not run for others
        self._ops = NumbaCpuOps(CpuSettings(threads=threads))
        spec = ExecutorSpec(
            checkpoint=checkpoint,
            dtype="bfloat16",
            max_rows=max(shape.rows for shape in shapes),
            max_step_tokens=max(shape.tokens for shape in shapes),
            kv_slots=max(shape.keys for shape in shapes),
        )
        with torch.inference_mode():
            self._running = load(spec, self._ops, ALONE, lambda what, done, total: None)
            for layer in self._running.kv:  # memory that nobody wrote to would all be one page, in the cache
                layer.keys.normal_()
                layer.values.normal_()
        self._program = _program(self._running)
        self._walks = [Walk([launch], threads) for launch in self._program.recording.launches]
        self._sizes = Sizes.of(read_config(Path(checkpoint.folder)))

    @torch.inference_mode()
    def measure(self, shape: Shape) -> list[Part]:
        """The parts of a step of ``shape``, in the order in which they first come."""
        first, again = self._batches(shape)
        self._running.rows.apply(first)
        planning, step = self._best(lambda: self._plan(again))
        hidden = self._program(step.inputs)
        parts = {"planning in Python": Part("planning in Python", planning)}
        for launch, seconds in zip(self._program.recording.launches, self._best_walks(), strict=True):
            kind = kind_of(launch)
            part = Part(kind, seconds, *work_of(launch, self._sizes, shape))
            parts[kind] = parts[kind].with_more(part) if kind in parts else part
        self._running.rows.apply(self._release(shape))
        return [*parts.values(), *self._ending(hidden[step.sampled_at])]

    def _best_walks(self) -> list[float]:
        rounds = [[self._timed(walk)[0] for walk in self._walks] for _ in range(REPEATS)]
        return [min(times) for times in zip(*rounds, strict=True)]

    def _best(self, work: Callable[[], Result]) -> tuple[float, Result]:
        return min((self._timed(work) for _ in range(REPEATS)), key=lambda timed: timed[0])

    def _timed(self, work: Callable[[], Result]) -> tuple[float, Result]:
        start = self._clock()
        result = work()
        return self._clock() - start, result

    def _plan(self, batch: ScheduleBatch) -> Step:
        step = self._running.rows.apply(batch)
        self._ops.begin(step.inputs)
        return step

    def _ending(self, hidden: Tensor) -> Iterator[Part]:
        """From the last hidden states of the rows to their tokens."""
        seconds, logits = self._best(lambda: self._running.model.logits(hidden))
        inner, vocabulary = self._sizes.hidden, logits.shape[1]
        yield Part(f"head {vocabulary:,} × {inner:,}", seconds, *linear_work(len(hidden), inner, vocabulary))
        seconds, _ = self._best(lambda: self._ops.choose(logits, None, None))
        yield Part("largest logit", seconds, logits.nbytes)

    def _batches(self, shape: Shape) -> tuple[ScheduleBatch, ScheduleBatch]:
        """The rows come, with their context found in the cache; and the step that computes what is new."""
        none, greedy, length = ints(), TokenSampling(seed=0, temperature=0.0), shape.context + shape.new
        rows, counts = ints(range(shape.rows)), ints([shape.new] * shape.rows)
        begins = [row * length for row in rows]
        admitted = [
            NewRow(row, ints([row + 1] * length), length, ints(range(begin, begin + shape.context)), greedy)
            for row, begin in enumerate(begins)
        ]
        slots = [slot for begin in begins for slot in range(begin + shape.context, begin + length)]
        arrival = ScheduleBatch(0, none, admitted, [], none, none, none, none)
        return arrival, ScheduleBatch(1, none, [], [], rows, counts, ints(slots), ints([1] * shape.rows))

    def _release(self, shape: Shape) -> ScheduleBatch:
        none = ints()
        return ScheduleBatch(2, ints(range(shape.rows)), [], [], none, none, none, none)


def _program(running: Running) -> StepProgram:
    """Raises CannotProfile."""
    if not isinstance(running.hidden, StepProgram):
        raise CannotProfile(f"{type(running.model).__name__} models are not recorded, so there is nothing to replay")
    return running.hidden
