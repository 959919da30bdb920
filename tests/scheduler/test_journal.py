"""The journal: what a scheduler was told is enough to make its every plan again."""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from scheduler_bench import CheckingWorker

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError
from sgframe.front.scoring import TokenTree
from sgframe.journal import Header, Journal, Planned, RecordedScheduler, read_journal
from sgframe.messages import GenerateRequest, ScheduleBatch, ints
from sgframe.replay import replay
from sgframe.sampling import TokenSampling
from sgframe.scheduler.limits import LeaseLimits, Limits
from sgframe.scheduling import SchedulerSpec, build

MiB = 2**20


def spec(cache: str = "radix", policy: str = "lpm", page_size: int = 1) -> SchedulerSpec:
    choices = configure({"cache": cache, "policy": policy}).choose()
    return SchedulerSpec(
        Limits(96, 4, 32, page_size, LeaseLimits(tokens=48, seconds=9)),
        choices[Seam.CACHE],
        choices[Seam.POLICY],
        "ratio",
    )


def record(path: Path, spec: SchedulerSpec, steps: int = 200, limit: int = MiB) -> list[ScheduleBatch]:
    """A lively service, recorded: programs, aborts, flushes, retractions, failures, overlap. Returns the batches."""
    random, worker = Random(7), CheckingWorker(spec.limits.page_size)
    scheduler = build(spec, partial(RecordedScheduler, Journal(path, limit, spec)))
    sent: deque[ScheduleBatch] = deque()
    batches = []
    for step in range(steps):
        if random.random() < 0.3:
            prompt = ints([random.randint(0, 1)] * random.randint(1, 40))
            place: dict[str, Any] = {"lease": step, "lineage": (step % 3, 0, step)} if random.random() < 0.5 else {}
            if random.random() < 0.2:
                tree = TokenTree([[1, 2, 3], [1, 2, step % 5]])
                place |= {"tree": tree.tree}
                prompt, most = prompt + tree.nodes, 0
            else:
                most = random.randint(0, 40)
            scheduler.add(GenerateRequest(step, prompt, most, ints([7]), TokenSampling(seed=0), **place))
        if random.random() < 0.1:
            scheduler.release_leases([step - random.randint(0, 20)])
        if random.random() < 0.05:
            scheduler.abort(step - 3, "disconnect")
        if random.random() < 0.02:
            scheduler.flush()
        batch = scheduler.plan(step * 0.125)
        if batch is not None:
            batches.append(batch)
            sent.append(batch)
        if len(sent) > (batch is not None):
            output = worker.execute(sent.popleft())
            if random.random() < 0.03:
                scheduler.fail("device lost")
            elif output.tokens and random.random() < 0.03:
                scheduler.apply(msgspec.structs.replace(output, tokens=ints([-1, *output.tokens[1:]])))
            else:
                scheduler.apply(output)
        scheduler.check()
    return batches


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_a_replay_makes_every_plan_again(tmp_path: Path, policy: str, page_size: int) -> None:
    batches = record(tmp_path / "j", spec(policy=policy, page_size=page_size))
    done = replay(tmp_path / "j")
    assert done.difference is None
    assert done.plans == len(batches) > 100
    assert done.scheduler.counters.retractions > 0 or page_size > 1


@pytest.mark.parametrize("lost", [1, 7, 100, 5000])
def test_what_a_killed_process_leaves_behind_is_replayed_as_far_as_it_goes(tmp_path: Path, lost: int) -> None:
    batches = record(tmp_path / "j", spec())
    os.truncate(tmp_path / "j", (tmp_path / "j").stat().st_size - lost)
    done = replay(tmp_path / "j")
    assert done.difference is None
    assert 0 < done.plans <= len(batches)


def test_a_flipped_bit_ends_the_replay_before_it(tmp_path: Path) -> None:
    record(tmp_path / "j", spec())
    data = bytearray((tmp_path / "j").read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / "j").write_bytes(data)
    done = replay(tmp_path / "j")
    assert done.difference is None
    assert 0 < done.plans < 150


def test_a_plan_that_comes_out_otherwise_is_shown(tmp_path: Path) -> None:
    record(tmp_path / "j", spec(policy="fcfs"))
    made, entries = read_journal(tmp_path / "j")
    other = Journal(tmp_path / "other", MiB, made)
    for entry in entries:
        changed = isinstance(entry, Planned) and entry.step == 20
        other.record(Planned(entry.now, 20, 1) if changed else entry)  # type: ignore[union-attr]
    other.flush()
    difference = replay(tmp_path / "other").difference
    assert difference is not None and difference.batch is not None
    assert (difference.step, difference.recorded, difference.batch.step) == (20, 1, 20)


def test_a_replay_stops_where_it_is_told(tmp_path: Path) -> None:
    record(tmp_path / "j", spec())
    done = replay(tmp_path / "j", until=10)
    assert done.plans == 11
    assert done.scheduler.counters.steps == 11


def test_a_journal_ends_at_its_limit_and_the_service_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    batches = record(tmp_path / "j", spec(), limit=20_000)
    assert (tmp_path / "j").stat().st_size <= 20_000
    assert caplog.text.count("is full: nothing is recorded from here on") == 1
    done = replay(tmp_path / "j")
    assert done.difference is None
    assert 0 < done.plans < len(batches)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    Journal(tmp_path / "j", MiB, spec())
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("precious")
    with pytest.raises(ConfigError, match="exists already: move it away"):
        Journal(tmp_path / "j", MiB, spec())
    assert (tmp_path / "j").read_text() == "precious"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no/j cannot be written: No such file or directory"):
        Journal(tmp_path / "no" / "j", MiB, spec())


@pytest.mark.parametrize("content", [b"", b"hello, this is text", b"\x00" * 64])
def test_what_is_no_journal_is_said_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(ConfigError, match="is no journal of this version"):
        replay(tmp_path / "j")


def test_a_missing_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        replay(tmp_path / "j")


def test_another_format_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MiB, spec())
    (tmp_path / "j").write_bytes(b"")
    journal.record(Header("sgframe-journal-99", spec()))
    journal.flush()
    with pytest.raises(ConfigError, match="format 'sgframe-journal-99'; this version reads sgframe-journal-4"):
        replay(tmp_path / "j")


def test_the_journal_holds_what_led_to_a_fault_in_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = spec()
    scheduler = build(made, partial(RecordedScheduler, Journal(tmp_path / "j", MiB, made)))
    monkeypatch.setattr(scheduler.memory.cache, "peek", lambda *arguments: 1 / 0)
    scheduler.add(GenerateRequest(1, ints([1, 2]), 4, ints(), TokenSampling(seed=0)))
    with pytest.raises(ZeroDivisionError):
        scheduler.plan(1.0)
    _, entries = read_journal(tmp_path / "j")
    assert [type(entry).__name__ for entry in entries] == ["GenerateRequest", "Planned"]


def test_a_torn_write_ends_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal, write = Journal(tmp_path / "j", MiB, spec()), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    journal.record(Planned(0.0, 0, 1))
    journal.flush()
    monkeypatch.undo()
    journal.record(Planned(1.0, 1, 1))
    journal.flush()
    assert list(read_journal(tmp_path / "j")[1]) == []
    assert "cannot be written any more: the disk took a part of a frame only" in caplog.text
