"""The parts of ``serving.py``: peers and their descriptors, waiting for quiet, conversations, and what the tables say."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from drive import quiet
from drive.client import Answer, Endpoint
from drive.limits import Limits
from drive.machine import Machine
from drive.outcome import Outcome, Target
from drive.peers import DESCRIPTORS, Launch, NotInstalled, Setting, fill, our_launch, peer_launch, peer_names
from drive.programs_client import Client
from drive.prompts import Texts
from drive.report import Report, RowReport, ServerReport, best_ratios
from drive.rows import ROWS, Row
from drive.sides import Benchmark, Side

SETTING = Setting(Path("/models/m"), "m", cpus=[0, 1], threads=2, context=2048, concurrency=16)


# ------------------------------------------------------------------------------------------ peers


def test_only_names_that_mean_something_are_filled_in() -> None:
    assert fill('serve {model} --set {"a": 1} {other}', {"model": "m"}) == 'serve m --set {"a": 1} {other}'


def test_ours_runs_in_the_environment_of_the_benchmark() -> None:
    command = our_launch(SETTING).command.split()
    assert command[:4] == [sys.executable, "-m", "sgframe", "serve"]
    assert "/models/m" in command
    assert "{port}" in command


def installed(folder: Path, name: str, descriptor: str) -> Launch:
    (folder / name).symlink_to(sys.prefix)
    (folder / f"{name}.toml").write_text(f'title = "T"\npackage = "msgspec"\n{descriptor}')
    return peer_launch(name, folder, SETTING)


def test_a_peers_command_and_environment_are_filled_in(tmp_path: Path) -> None:
    launch = installed(
        tmp_path,
        "x",
        'command = "{python} -c {all_context} --port {port}"\nask_for = "{name}!"\n[environment]\nCPUS = "{cpus} {threads}"',
    )
    assert launch.command == f"{tmp_path}/x/bin/python -c {2048 * 16} --port {{port}}"
    assert (launch.model, launch.environment) == ("m!", {"CPUS": "0,1 2"})
    assert launch.version[0].isdigit()


def test_a_peer_without_its_files_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match=r"x is not installed: there is no /nowhere/m\.gguf; .*README"):
        installed(tmp_path, "x", 'command = "x"\nneeds = ["/nowhere/{name}.gguf"]')


@pytest.mark.parametrize("name", peer_names())
def test_each_peer_that_is_not_there_is_told_with_the_remedy(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match=f"{name} is not installed: there is no .*README"):
        peer_launch(name, tmp_path, SETTING)
    assert f"## {name}" in (DESCRIPTORS / "README.md").read_text()


def test_a_peer_that_nobody_describes_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match=r"x is not known: .* llamacpp, sglang, transformers, vllm"):
        peer_launch("x", tmp_path, SETTING)


# ------------------------------------------------------------------------------------------ quiet


def waited(monkeypatch: pytest.MonkeyPatch, limit: float, busy: Callable[[int], bool]) -> quiet.Waited:
    """On a machine whose seconds are ``busy`` or idle."""
    seconds = itertools.count()
    now = [0.0]
    idle = itertools.accumulate(0 if busy(second) else 100 for second in itertools.count())
    monkeypatch.setattr("drive.quiet.time.sleep", lambda pause: now.__setitem__(0, now[0] + pause))
    monkeypatch.setattr("drive.quiet.time.monotonic", lambda: now[0])
    return quiet.wait_for_quiet(limit, lambda: (next(idle), 100 * next(seconds)))


def test_three_quiet_seconds_in_a_row_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, 60, lambda second: second in (1, 2, 5)) == quiet.Waited(8.0, True, 0.0)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, 10, lambda second: True) == quiet.Waited(10.0, False, 1.0)


# ------------------------------------------------------------------------------------------ conversations


def test_each_turn_holds_all_that_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    async def complete(endpoint: Endpoint, request: object) -> Answer:
        messages = request.fields()["messages"]  # type: ignore[attr-defined]
        asked.append(tuple(f"{message['role']}: {message['content']}" for message in messages))
        return Answer(0.0, 0.5, 1.0, 10, 4, 0, f"answer {len(messages)}", False)

    monkeypatch.setattr("drive.rows.complete", complete)
    row = replace(ROWS["m"], conversations=2, concurrency=1, turns=3)
    outcome = row.run(Target(Endpoint("http://x"), Texts(1.0), "1", ours=True))
    assert [len(messages) for messages in asked] == [1, 3, 5] * 2
    assert asked[2][:4] == (asked[0][0], "assistant: answer 1", asked[1][2], "assistant: answer 3")
    assert len(asked[0][0].split()) == 1 + 200 + 60
    assert asked[0][0].split()[:201] == asked[3][0].split()[:201], "the beginning is common to all"
    assert (outcome.value, outcome.output_tokens, len(outcome.first_tokens)) == (6.0, 24, 6)


def test_a_long_prompt_is_cut_to_the_models_context() -> None:
    assert ROWS["k"].within(8192) == ROWS["k"]
    assert ROWS["k"].within(2048).longest == 2048


def test_a_call_is_made_again_on_a_connection_that_ended_before_any_byte() -> None:
    asked = 0

    def respond(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.", request=request)
        return httpx.Response(200, json={"choices": [{"text": "word"}]})

    async def ask() -> str:
        async with httpx.AsyncClient(base_url="http://peer", transport=httpx.MockTransport(respond)) as http:
            return await Client(http, Endpoint("http://peer"), "echo").text("prompt", 1)

    assert asyncio.run(ask()) == "word"
    assert asked == 2


# ------------------------------------------------------------------------------------------ sides


def test_a_side_that_fails_is_noted_and_the_others_go_on() -> None:
    gone, other = (Side(name, "http://127.0.0.1:9") for name in ("gone", "other"))
    Benchmark([ROWS["a"]], 1, Texts(1.0), chat=False, patience=0.0).run([gone, other], 2)
    assert [failure.partition(":")[0] for failure in gone.failures] == ["run 1", "run 2"]
    assert len(other.failures) == 2


# ------------------------------------------------------------------------------------------ report


def measured(name: str, **values: list[float]) -> Side:
    """A side with these figures of the runs, by row."""
    outcomes = {
        row: [Outcome(value, output_tokens=640, first_tokens=tuple(n / 1000 for n in range(1, 201))) for value in runs]
        for row, runs in values.items()
    }
    return Side(name, None, outcomes=outcomes, ours=name == "ours", seconds_to_ready=[4.0, 6.0], memory_bytes=[10**9])


def reported(*sides: Side, rows: tuple[Row, ...] = (ROWS["a"], ROWS["k"])) -> Report:
    reports = [RowReport.of(row, sides) for row in rows]
    return Report(
        ratios=best_ratios(reports),
        rows=reports,
        servers={side.name: ServerReport.of(side, rows) for side in sides},
        machine=Machine("a processor", 2, 1.0, 0.0),
        cpus=[0, 1],
        threads=2,
        limits=[Limits(50e9, 1e12)],
        weights_bytes=250_000_000,
        seed=1,
        runs=1,
        scale=1.0,
        not_installed=["y is not installed"],
    )


def test_ratios_are_of_medians_and_by_the_best_peer_of_each_row() -> None:
    ours = measured("ours", a=[90.0, 100.0, 120.0], k=[60.0])
    report = reported(ours, measured("x", a=[50.0], k=[80.0]), measured("y", a=[200.0]))
    assert report.ratios == {"a": 0.5, "k": 0.75}
    assert report.rows[0].ratios == {"x": 2.0, "y": 0.5}
    assert report.rows[0].engines["ours"].spread == pytest.approx(0.3)


def test_a_row_that_ours_or_all_peers_failed_in_has_no_ratio() -> None:
    assert reported(measured("ours", a=[1.0]), measured("x", k=[1.0])).ratios == {}


def test_the_tables_show_figures_servers_and_bounds() -> None:
    ours, x, y = measured("ours", a=[100.0], k=[60.0]), measured("x", a=[50.0]), measured("y", a=[80.0])
    y.cannot = {"k": "it is short"}
    lines = [" ".join(line.split()) for line in reported(ours, x, y).table().splitlines()]
    assert "a one at a time ours 100 tok/s 100.5 198.0" in lines
    assert "y* 80 tok/s 100.5 198.0 1.25" in lines
    assert "x 5.0 1,000" in lines
    assert "row a: weights of 250 MB read once a token allow 200 tok/s: ours 50%, x 25%, y 40%" in lines
    assert "row k: by the engine's own row a: ours 0.60" in lines
    assert "row k: y was not asked, it is short" in lines
    assert "y is not installed" in lines
