"""What docs/speculation.md shows is run, and what it lists is all there is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import blocks, commands, environment, run, table, write_files
from scheduler_bench import VOCAB, Bench, expected_output

from sgframe.assembly.choosing import choice_of
from sgframe.assembly.plugins import Plugin, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.scheduler.speculation import Speculation
from sgframe_cli import main
from sgframe_lookup import LookupSettings

PAGE = "docs/speculation.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder with the page's package and its test."""
    write_files(tmp_path, *blocks(PAGE, "python"))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in [name for name in sys.modules if name.startswith("sgframe_last_seen")]:
        del sys.modules[module]


@pytest.mark.parametrize("command", commands(PAGE))
def test_the_commands_are_right(command: str) -> None:
    words = command.partition("#")[0].split()
    assert words[:2] == ["sgframe", "serve"]
    result = CliRunner().invoke(
        main, ["config", "check", "--source", "simulated", "--backend", "simulated", *words[2:]]
    )
    assert result.exit_code == 0, result.output


def test_the_settings_are_those_of_the_plugin() -> None:
    listed = table(PAGE, "| setting of `prompt-lookup` | default | what it says |")
    fields = LookupSettings.model_fields
    assert [(name.strip("`"), int(default)) for name, default, _ in listed] == [
        (name, field.default) for name, field in fields.items()
    ]


def test_the_example_is_offered_and_guesses(example: Path) -> None:
    (offer,) = load_plugins(plugins=[Plugin("last-seen", "sgframe_last_seen")]).offers(Seam.SPECULATOR)
    speculator = choice_of(offer, {}).build()
    bench = Bench(speculation=Speculation(speculator, 16, VOCAB), max_running=16)
    bench.add(1, [1, 2, 3, 1], max_tokens=8)
    bench.run()
    assert bench.outputs[1] == expected_output([1, 2, 3, 1], 8)
    assert bench.scheduler.counters.guessed_tokens > 0


@pytest.mark.slow
def test_the_examples_own_test_passes(example: Path) -> None:
    options = ("-q", "-c", "/dev/null", "-p", "no:cacheprovider")
    tests = (sys.executable, "-m", "pytest", *options, "test_last_seen.py")
    said = run(*tests, folder=example, environ=environment(example))
    assert re.fullmatch(r"\.+ +\[100%\]\n[1-9]\d* passed in .*\n", said), said
