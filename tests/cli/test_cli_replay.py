"""``sgframe replay``: a journal of a real service, also of one that was killed."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from sgframe import Engine, SamplingParams
from sgframe.errors import EngineDead
from sgframe.journal import Journal, Planned, read_journal
from sgframe_cli.group import main

SIMULATED = {"backend": "simulated", "source": "simulated", "model": "simulated"}


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a service whose scheduler was killed in the middle of its work."""
    path = tmp_path_factory.mktemp("journal") / "journal"
    table = {"simulated": {"step_seconds": 0.002}}
    with Engine(**SIMULATED, journal=str(path), plugin=table) as engine:
        engine.generate(["once upon a time " * 9 + str(i) for i in range(12)], SamplingParams(max_tokens=20))
        stream = engine.stream("and then", SamplingParams(max_tokens=2000))
        next(stream)
        os.kill(_child(os.getpid(), "sgframe::scheduler"), signal.SIGKILL)
        with pytest.raises(EngineDead):
            list(stream)
    return path


def _child(parent: int, name: str) -> int:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        pid = int(stat.parent.name)
        command = (stat.parent / "cmdline").read_bytes().rstrip(b"\0").decode()
        if command == name and int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
            return pid
    raise AssertionError(f"no {name} below {parent}")


def run(*words: object) -> str:
    result = CliRunner().invoke(main, ["replay", *map(str, words)])
    return f"{result.exit_code}: {result.output}"


def test_a_killed_service_is_replayed_plan_by_plan(journal: Path) -> None:
    assert re.fullmatch(r"0: 13 requests, \d+ plans, every one as recorded\n", run(journal))


def test_a_replay_shows_who_ran_at_a_step(journal: Path) -> None:
    steps = [entry.step for entry in read_journal(journal)[1] if isinstance(entry, Planned) and entry.step >= 0]
    assert re.search(
        r"1 running, 0 waiting; slots: .*\n  runs: request 13, row \d+, \d+ of \d+ tokens computed",
        run(journal, "--until", steps[-1]),
    )


def test_a_step_beyond_the_end_is_refused(journal: Path) -> None:
    plans = max(entry.step for entry in read_journal(journal)[1] if isinstance(entry, Planned)) + 1
    assert run(journal, "--until", plans - 1).startswith("0: ")
    refused = run(journal, "--until", plans)
    assert refused.startswith("2: ")
    assert f"--until {plans}: the journal ends before; it has {plans} steps, counted from 0" in " ".join(
        refused.split()
    )


def test_a_part_that_is_not_installed_here_is_named(journal: Path, tmp_path: Path) -> None:
    spec, _ = read_journal(journal)
    policy = msgspec.structs.replace(spec.policy, target="sgframe_gone.policy:Gone")
    copy = Journal(tmp_path / "copy", 2**20, msgspec.structs.replace(spec, policy=policy))
    copy.flush()
    assert "2: Error: policy 'lpm' (sgframe_gone.policy:Gone) " in run(tmp_path / "copy")


def test_a_plan_that_differs_is_exit_code_1(journal: Path, tmp_path: Path) -> None:
    spec, entries = read_journal(journal)
    copy = Journal(tmp_path / "copy", 2**20, msgspec.structs.replace(spec, limits=replace(spec.limits, max_running=3)))
    for entry in entries:
        copy.record(entry)
    copy.flush()
    assert re.match(
        r"1: Error: step \d+: digest [0-9a-f]{16} was recorded; planned now: rows \[", run(tmp_path / "copy")
    )


def test_a_file_that_is_no_journal_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    assert (
        run(tmp_path / "x")
        == f"2: Error: {tmp_path / 'x'} is no journal of this version of sgframe (sgframe-journal-4)\n"
    )


@pytest.mark.parametrize("content", ["", "precious"])
def test_a_journal_that_exists_stops_the_start_before_the_model_is_looked_for(tmp_path: Path, content: str) -> None:
    (tmp_path / "j").write_text(content)
    result = generate("--journal", tmp_path / "j", "--model", "no-such-model")
    assert result == f"2: Error: the journal {tmp_path / 'j'} exists already: move it away, or name another file\n"
    assert (tmp_path / "j").read_text() == content


def test_a_start_that_fails_leaves_no_journal_behind(tmp_path: Path) -> None:
    assert generate("--journal", tmp_path / "j", "--set", "radix.eviction=nomod:X").startswith("2: ")
    assert list(tmp_path.iterdir()) == []


def generate(*words: object) -> str:
    result = CliRunner().invoke(main, ["generate", "hi", *SIMULATED_WORDS, *map(str, words)])
    return f"{result.exit_code}: {result.output}"


SIMULATED_WORDS = ["--backend", "simulated", "--source", "simulated", "--model", "simulated"]
