"""The options that say what an answer must match."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from sgframe.constraints import Constraint
from sgframe_cli.structured import constraint_options


def run(*arguments: str) -> tuple[Result, list[Constraint | None]]:
    got = []

    @click.command()
    @constraint_options
    def command(constraint: Constraint | None) -> None:
        got.append(constraint)

    return CliRunner().invoke(command, arguments), got


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.json").write_text('{ "b": 1, "a": true }')
    Path("broken.json").write_text("{")


@pytest.mark.parametrize(
    ("arguments", "constraint"),
    [
        ([], None),
        (["--regex", "a+"], Constraint("regex", "a+")),
        (["--choice", "é", "--choice", "b"], Constraint("choice", '["é","b"]')),
        (["--json-schema", "schema.json"], Constraint("json_schema", '{"b":1,"a":true}')),
    ],
)
def test_an_option_becomes_a_constraint(arguments: list[str], constraint: Constraint | None) -> None:
    assert run(*arguments)[1] == [constraint]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--regex", "a", "--choice", "b"], "exclude each other"),
        (["--json-schema", "nowhere.json"], "nowhere.json"),
        (["--json-schema", "broken.json"], "broken.json is not valid JSON"),
    ],
)
def test_a_mistake_is_told(arguments: list[str], words: str) -> None:
    result, got = run(*arguments)
    assert (result.exit_code, got) == (2, [])
    assert words in result.output
