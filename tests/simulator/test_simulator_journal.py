"""A journal is a trace: the simulator sees the requests that a server saw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError
from sgframe.front.scoring import TokenTree
from sgframe.journal import Journal, RecordedScheduler
from sgframe.messages import GenerateRequest, Namespace, StepOutput, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.limits import Limits
from sgframe.scheduling import SchedulerSpec, build
from sgframe_simulator.simulation import Setup, simulate
from sgframe_simulator.trace_files import load_trace

PROMPT = list(range(40))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Two requests at 10 s, one with 3 tokens of output and one, in another namespace, with 1; a last one at 12.5 s."""
    path = tmp_path / "journal"
    choices = configure({"cache": "radix", "policy": "fcfs"}).choose()
    spec = SchedulerSpec(Limits(256, 4, 256), choices[Seam.CACHE], choices[Seam.POLICY], "ratio")
    scheduler = build(spec, partial(RecordedScheduler, Journal(path, 2**20, spec)))

    def add(id: int, prompt: list[int], max_tokens: int, namespace: Namespace = ()) -> None:
        sampling = TokenSampling(seed=0)
        scheduler.add(GenerateRequest(id, ints(prompt), max_tokens, ints(), sampling, namespace))

    def step(now: float) -> None:
        batch = scheduler.plan(now)
        if batch is not None:
            rows = ints(row for row, samples in zip(batch.rows, batch.samples, strict=True) if samples)
            scheduler.apply(StepOutput(batch.step, rows, ints([7] * len(rows))))

    add(1, PROMPT, 3)
    add(2, PROMPT, 1, (("salt", "x"),))
    for _ in range(4):
        step(10.0)
    add(3, [*PROMPT[:33], 99], 2)
    for _ in range(4):
        step(12.5)
    return path


def test_lengths_and_arrivals_are_those_of_the_service(journal: Path) -> None:
    trace = load_trace(journal)
    assert trace.input_lengths.tolist() == [40, 40, 34]
    assert trace.output_lengths.tolist() == [3, 1, 2]
    assert trace.arrivals.tolist() == [0.0, 0.0, 2.5]


def test_prompts_share_blocks_as_far_as_they_are_equal_and_of_one_namespace(journal: Path) -> None:
    trace = load_trace(journal)
    first, other, last = (trace.blocks_of(request).tolist() for request in range(3))
    assert first[:2] == last[:2] and first[2] != last[2]
    assert not {*first} & {*other}


def test_a_finer_block_sees_more(journal: Path) -> None:
    trace = load_trace(journal, 1)
    assert trace.blocks_of(0).tolist()[:33] == trace.blocks_of(2).tolist()[:33]


def test_a_tree_of_continuations_counts_as_its_prompt(tmp_path: Path) -> None:
    choices = configure({"cache": "radix", "policy": "fcfs"}).choose()
    spec = SchedulerSpec(Limits(256, 4, 256), choices[Seam.CACHE], choices[Seam.POLICY], "ratio")
    scheduler = build(spec, partial(RecordedScheduler, Journal(tmp_path / "tree", 2**20, spec)))
    tree = TokenTree([[1, 2, 3], [4]])
    sampling = TokenSampling(seed=0)
    scheduler.add(GenerateRequest(1, ints(PROMPT) + tree.nodes, 0, ints(), sampling, tree=tree.tree))
    scheduler.plan(1.0)
    assert load_trace(tmp_path / "tree").input_lengths.tolist() == [40]


def test_it_runs(journal: Path, setup_of: Callable[..., Setup]) -> None:
    outcome = simulate(load_trace(journal), setup_of(slots=256))
    assert outcome.requests == 3
    assert outcome.hit_rate == pytest.approx(100 * 32 / (40 + 40 + 34))


def test_a_journal_without_requests_is_said_so(tmp_path: Path) -> None:
    choices = configure({"cache": "radix", "policy": "fcfs"}).choose()
    Journal(tmp_path / "j", 2**20, SchedulerSpec(Limits(8, 4, 8), choices[Seam.CACHE], choices[Seam.POLICY], "ratio"))
    with pytest.raises(ConfigError, match="holds no requests: record a journal while the server is in use"):
        load_trace(tmp_path / "j")
