"""``sgframe serve --dry-run``: everything but the model, and nothing that stays."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from sgframe_cli import starting
from sgframe_cli.group import main

SIMULATED = ("--backend", "simulated", "--source", "simulated", "--model", "nowhere", "--port", "0")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process's log is pytest's."""
    monkeypatch.setattr(starting, "configure_logging", lambda settings, process: None)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["serve", "--dry-run", *SIMULATED, *map(str, arguments)])


def test_it_says_what_would_be_started_whatever_the_model() -> None:
    result = run("--policy", "fcfs", "--transport", "inproc", "--shadow", "policy=lpm")
    assert result.exit_code == 0
    assert result.stdout == (
        "parts      cache radix, policy fcfs, grammar compressed-fsm, speculator none, transport inproc, source simulated, "
        "backend simulated, launcher local\n"
        "in shadow  policy lpm, cache radix\n"
        "device     simulated\n"
        "processes  front, scheduler, worker-0\n"
        "listening  http://127.0.0.1:(a free port)\n"
        "model      nowhere, which was not looked for; sgframe doctor does that\n"
        "Dry run: all of this could start. Nothing is left running.\n"
    )


def test_a_machine_that_follows_would_start_its_ranks_alone() -> None:
    several = ("--tp-size", 4, "--nnodes", 2, "--dist-addr", "192.0.2.1:29500")
    result = run("--backend", "cpu", *several, "--node-rank", 1)
    assert "processes  worker-2, worker-3\n" in result.stdout
    assert "listening  nobody is listened to: machine 0 serves\n" in result.stdout
    assert "processes  front, scheduler, worker-0, worker-1\n" in run("--backend", "cpu", *several).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "x"), "Error: port: should be a valid integer"),
        (("--policy", "lpn"), "Error: no plugin offers the policy 'lpn'"),
        (("--set", "radix.eviction=nomod:X"), "the eviction strategy 'nomod:X' cannot be imported"),
        (("--backend", "simulated", "--tp-size", "2"), "Error: backend 'simulated' runs on one rank only"),
        (("--host", "192.0.2.1"), "Error: cannot listen on 192.0.2.1"),
        (("--journal", "/nowhere/journal"), "Error: the journal /nowhere/journal cannot be written"),
    ],
)
def test_what_would_fail_fails_with_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_port_that_is_taken_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "is in use by another process" in result.stderr


@pytest.mark.parametrize("transport", ["zmq", "inproc"])
def test_nothing_stays(short_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    before = psutil.Process().children(), psutil.Process().num_fds()
    result = run("--port", port, "--transport", transport, "--journal", short_path / "journal")
    assert result.exit_code == 0, result.output
    assert f"listening  http://127.0.0.1:{port}\n" in result.stdout
    assert list(short_path.iterdir()) == []
    assert (psutil.Process().children(), psutil.Process().num_fds()) == before
    socket.create_server(("127.0.0.1", port)).close()


def test_replicas_are_named_one_by_one() -> None:
    result = run("--replicas", "2")
    assert "processes  front, scheduler@0, worker-0@0, scheduler@1, worker-0@1\n" in result.stdout
