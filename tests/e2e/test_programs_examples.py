"""The example programs on the bundled model, each with what it computed against what it would have without sharing."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sgframe_dsl as sgf
from sgframe import Engine

HOUSE = Path(__file__).parents[2]
PROGRAMS = HOUSE / "examples" / "programs"
NAMES = sorted(file.stem for file in PROGRAMS.glob("*.py") if file.stem != "harness")
sys.path.insert(0, str(PROGRAMS))  # as it is for a program that is run

from harness import Reuse, measured, print_marked  # noqa: E402

pytestmark = pytest.mark.timeout(900)  # the first use fetches and converts the model


SMALL: dict[str, tuple[float, dict[str, int]]] = {
    "chat": (0.56, {"items": 1, "max_tokens": 8}),
    "generative_agents": (0.80, {"items": 10}),
    "gsm8k": (0.27, {"items": 2, "max_tokens": 8}),
    "hellaswag": (0.63, {"items": 2}),
    "json_decoding": (0.28, {"items": 1}),
    "llm_judge": (0.15, {"items": 1, "max_tokens": 8}),
    "mmlu": (0.58, {"items": 2}),
    "rag": (0.37, {"items": 1, "max_tokens": 8}),
    "react": (0.12, {"items": 1, "max_tokens": 8}),
    "self_consistency": (0.10, {"items": 2, "chains": 3, "max_tokens": 8}),
    "skeleton_of_thought": (0.30, {"items": 1, "points": 3, "max_tokens": 8}),
    "tip_suggestion": (0.12, {"items": 1, "max_tokens": 8}),
    "tree_of_thought": (0.08, {"items": 2, "width": 2}),
}
"""The most of its prompt tokens that an example computes, as a share, when these options make it short."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    plugin = {"cpu": {"threads": 1}}
    with Engine(model="smollm2-135m", dtype="float32", transport="inproc", plugin=plugin, kv_memory="512MiB") as engine:
        sgf.set_default_backend(engine)
        yield engine
        sgf.set_default_backend(None)


def main_of(name: str) -> Any:
    return runpy.run_path(str(PROGRAMS / f"{name}.py"))["main"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_answers_and_computes_what_is_shared_once(engine: Engine, name: str) -> None:
    share, options = SMALL[name]
    engine.flush_cache()  # what another example left is not this one's merit
    answers, reuse = measured(lambda: main_of(name)(**options))
    assert len(answers) == options["items"]
    assert reuse.computed <= share * reuse.unshared < reuse.unshared


# ------------------------------------------------------------------------------------------ the harness


@pytest.fixture
def simulated() -> Iterator[None]:
    """The default backend has one token for each byte, and one before the first."""
    with Engine(model="simulated", backend="simulated", source="simulated", transport="inproc") as engine:
        sgf.set_default_backend(engine)
        yield
        sgf.set_default_backend(None)


@sgf.function
def two_ways(s: sgf.State, text: str) -> None:
    s += text
    for branch in s.fork(2):
        branch += sgf.gen("way", max_tokens=4, ignore_eos=True)


def test_what_all_runs_took_is_added_up(simulated: None) -> None:
    answers, reuse = measured(lambda: [two_ways.run(text).trace().calls for text in ("a" * 29, "b" * 39)])
    assert answers == [2, 2]
    assert reuse == Reuse(  # the second text finds what comes before the first byte
        computed=(30 + 1) + (39 + 1), unshared=2 * (30 + 40), output=4 * 4, calls=4, seconds=reuse.seconds
    )
    assert reuse.seconds > 0


def test_the_line_tells_what_was_saved() -> None:
    assert str(Reuse(2500, 10000, 300, 12, 1.25)) == (
        "tokens computed 2,500, without sharing 10,000 (saved 75%), output 300, calls 12, 1.2 seconds"
    )
    assert "without sharing 0 (saved 0%)" in str(Reuse(0, 0, 0, 0, 0.0))


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["mmlu.py", *options])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(PROGRAMS / "mmlu.py"), run_name="__main__")
    return end.value.code


def test_an_example_is_a_command_that_uses_the_default_backend(
    simulated: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--items", "3", "--json") == 0
    *_, score, reuse = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"right: [0-3] of 3", score)
    assert json.loads(reuse)["calls"] == 3


def test_its_options_are_those_of_its_main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    described = " ".join(capsys.readouterr().out.split())
    assert "MMLU, 5-shot" in described
    assert "--items INTEGER [default: 20]" in described
    assert "--concurrency INTEGER [default: 8]" in described


def test_a_server_has_its_own_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--url", "http://127.0.0.1:1", "--model", "smollm2-135m") == 2
    assert "the server at --url has its own: drop one" in capsys.readouterr().err


def test_answers_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    print_marked(["2 + 2 =", "2 + 3 ="], [4, 4], [4, 5])
    assert capsys.readouterr().out == "2 + 2 = 4 (right)\n2 + 3 = 4 (wrong, expected 5)\nright: 1 of 2\n"
