"""Tiny random models, and a miniature scheduler that drives an executor through ScheduleBatch messages."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import CONFIGS, CONTEXT, save_model

from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Loaded, NewRow, Rewrite, ScheduleBatch, StepOutput, Tree, ints
from sgframe.sampling import TokenSampling
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor

GREEDY = TokenSampling(seed=0, temperature=0.0)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Checkpoint]:
    """A tiny random model of the named kind in CONFIGS, saved to disk once."""
    return cache(lambda kind: save_model(CONFIGS[kind](), tmp_path_factory.mktemp(kind), kind))


class MiniScheduler:
    """Rows, and scattered slots for them; each ``step`` sends one ScheduleBatch to the executor."""

    def __init__(self, executor: Executor, loaded: Loaded, seed: int = 0) -> None:
        self.executor = executor
        self.loaded = loaded
        self.free = list(range(loaded.slots))
        random.Random(seed).shuffle(self.free)
        self.tokens: dict[int, array[int]] = {}
        self.slots: dict[int, list[int]] = {}
        self.outputs: list[StepOutput] = []
        self._admitted: list[NewRow] = []
        self._released: list[int] = []
        self._rewrites: list[Rewrite] = []
        self._trees: set[int] = set()
        self._steps = 0

    def admit(
        self,
        row: int,
        tokens: Iterable[int],
        *,
        prompt_len: int | None = None,
        prefix: Sequence[int] = (),
        sampling: TokenSampling = GREEDY,
        logprobs_from: int = 1,
        tree: Tree | None = None,
    ) -> None:
        known = ints(tokens)
        self.tokens[row], self.slots[row] = known, list(prefix)
        self._trees = self._trees - {row} if tree is None else self._trees | {row}
        self._admitted.append(
            NewRow(row, known[:], prompt_len or len(known), ints(prefix), sampling, logprobs_from, tree)
        )

    def release(self, row: int) -> list[int]:
        """Let go of ``row``; its slots stay as they are and are the caller's."""
        self._released.append(row)
        del self.tokens[row]
        return self.slots.pop(row)

    def rewrite(self, row: int, start: int, slots: Sequence[int]) -> None:
        self.slots[row][start : start + len(slots)] = slots
        self._rewrites.append(Rewrite(row, start, ints(slots)))

    def batch(self, counts: dict[int, int]) -> ScheduleBatch:
        """The plan that computes ``counts[row]`` further tokens of each row."""
        new = ints()
        for row, count in counts.items():
            taken = [self.free.pop() for _ in range(count)]
            self.slots[row] += taken
            new.extend(taken)
        batch = ScheduleBatch(
            step=self._steps,
            released=ints(self._released),
            admitted=self._admitted,
            rewrites=self._rewrites,
            rows=ints(counts),
            counts=ints(counts.values()),
            slots=new,
            samples=ints(len(self.slots[row]) == len(self.tokens[row]) and row not in self._trees for row in counts),
        )
        self._steps += 1
        self._admitted, self._released, self._rewrites = [], [], []
        return batch

    def step(self, counts: dict[int, int]) -> StepOutput:
        self.executor.forward(self.batch(counts))
        output = self.executor.sample(None).result()
        for row, token in zip(output.rows, output.tokens, strict=True):
            self.tokens[row].append(token)
        self.outputs.append(output)
        return output

    def left(self, row: int) -> int:
        """Known tokens of ``row`` that are not computed yet."""
        return len(self.tokens[row]) - len(self.slots[row])

    def run(self, lengths: dict[int, int], chunk: int = CONTEXT) -> None:
        """Step until each row knows ``lengths[row]`` tokens, at most ``chunk`` tokens of a row at a time."""
        while going := [row for row, length in lengths.items() if len(self.tokens[row]) < length]:
            self.step({row: min(chunk, self.left(row)) for row in going})


Start = Callable[..., MiniScheduler]


@pytest.fixture(scope="session")
def start() -> Start:
    """``start(checkpoint, settings, progress, **spec)``: a MiniScheduler over a fresh cpu executor that loaded it."""

    def load(
        checkpoint: Checkpoint,
        settings: CpuSettings = CpuSettings(),  # noqa: B008 (frozen)
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
        **spec: Any,
    ) -> MiniScheduler:
        defaults = {"dtype": "float32", "max_rows": 8, "max_step_tokens": 256, "kv_slots": 512}
        executor = CpuExecutor(settings)
        return MiniScheduler(executor, executor.load(ExecutorSpec(checkpoint, **defaults | spec), progress))

    return load


@pytest.fixture(scope="session")
def scheduler(checkpoint: Callable[[str], Checkpoint], start: Start) -> Start:
    """``scheduler(kind, settings)``: a fresh MiniScheduler over an executor that has loaded that model.

    An executor is loaded once and serves many tests, so its KV is full of what other rows left behind.
    """
    first = cache(lambda kind, settings: start(checkpoint(kind), settings))

    def again(kind: str, settings: CpuSettings = CpuSettings()) -> MiniScheduler:  # noqa: B008 (frozen)
        loaded = first(kind, settings)
        return MiniScheduler(loaded.executor, loaded.loaded)

    return again


@pytest.fixture
def save(tmp_path: Path) -> Callable[[Any], Checkpoint]:
    """``save(config)``: a random model of that config on disk."""
    return lambda config: save_model(config, tmp_path)


@pytest.fixture(scope="session")
def oracle(checkpoint: Callable[[str], Checkpoint]) -> Callable[[str], Any]:
    """``oracle(kind)``: the same model in transformers' own hands, float32, eager attention."""
    return cache(
        lambda kind: transformers.AutoModelForCausalLM.from_pretrained(
            checkpoint(kind).folder, attn_implementation="eager", dtype=torch.float32
        ).requires_grad_(False)
    )
