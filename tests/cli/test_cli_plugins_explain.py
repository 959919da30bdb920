"""``sgframe plugins --explain``: what chose each part, to the line, and what overrode whom."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sgframe
from sgframe import Provider, hookimpl
from sgframe.assembly import plugins as assembly
from sgframe.assembly.plugins import BUILTIN, Plugin
from sgframe_cli.group import main
from sgframe_cli.origins import located

TOML = """\
# for the office
policy = "fcfs"
blocked = ["ascend"]
more_grammars = "xgrammar"

[plugin.lpm]
max_overtaken = 3

[shadow]
cache = "hash-chain"
"""
YAML = """\
policy: fcfs
plugin:
  lpm:
    max_overtaken: 3
"""
JSON = """\
{
  "policy": "fcfs",
  "plugin": {"lpm":
    {"max_overtaken": 3}}
}
"""


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [Provider("lpm", f"{__name__}:Lpm", "another lpm")]


@pytest.fixture(autouse=True)
def known_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "installed", lambda: [Plugin(name, module) for name, module in BUILTIN.items()])


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    file = tmp_path / "deploy.toml"
    file.write_text(TOML)
    return file


def run(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(main, ["plugins", "--explain", *map(str, arguments)], env=environ)


def explained(*arguments: object, **environ: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows by seam and name; by plugin for what offers nothing."""
    rows = json.loads(run("--json", *arguments, **environ).stdout)
    return {(row["seam"], row["name"] or row["plugin"]): row for row in rows}


def test_a_part_tells_its_distribution_version_and_state() -> None:
    row = explained()["policy", "lpm"]
    assert (row["distribution"], row["version"], row["state"]) == ("sgframe", sgframe.__version__, "ok")


def test_a_default_is_said_to_be_one() -> None:
    rows = explained()
    assert rows["policy", "lpm"]["why"] == ["chosen by default"]
    assert rows["policy", "fcfs"]["why"] == []


def test_a_file_is_told_with_its_line(deploy: Path) -> None:
    rows = explained("--config", deploy)
    assert rows["policy", "fcfs"]["why"] == [f"chosen by {deploy}:2"]
    assert rows["policy", "lpm"]["why"] == [f"asked for by default, which {deploy}:2 overrides"]
    assert rows["grammar", "xgrammar"]["why"] == [f"for requests that name it, by {deploy}:4"]
    assert rows["cache", "hash-chain"]["why"] == [f"runs in shadow, by {deploy}:10"]


def test_each_source_that_was_overridden_is_told(deploy: Path) -> None:
    rows = explained("--config", deploy, "--policy", "dfs-weight", SGFRAME_POLICY="priority")
    winner = "command line --policy"
    assert rows["policy", "dfs-weight"]["why"] == [f"chosen by {winner}"]
    assert rows["policy", "priority"]["why"] == [f"asked for by environment SGFRAME_POLICY, which {winner} overrides"]
    assert rows["policy", "fcfs"]["why"] == [f"asked for by {deploy}:2, which {winner} overrides"]


def test_a_word_of_the_option_plugin_is_told() -> None:
    assert explained("--plugin", "fcfs")["policy", "fcfs"]["why"] == ["chosen by command line --plugin fcfs"]


def test_who_blocks_a_plugin_is_told(deploy: Path) -> None:
    rows = explained("--config", deploy, "--plugin", "no:cuda", SGFRAME_BLOCKED="zmq")
    assert rows["", "ascend"]["why"] == [f"blocked by {deploy}:3"]
    assert rows["", "cuda"]["why"] == ["blocked by command line --plugin no:cuda"]
    assert rows["", "zmq"]["why"] == ["blocked by environment SGFRAME_BLOCKED"]


def test_two_plugins_that_offer_one_name_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    known = [Plugin("lpm", "sgframe_lpm"), Plugin("rival", __name__, "sgframe-rival", "0.2")]
    monkeypatch.setattr(assembly, "installed", lambda: known)
    rows = json.loads(run("--json").stdout)
    for row in (row for row in rows if row["name"] == "lpm"):
        assert row["why"] == [
            "chosen by default",
            "offered more than once, by plugin 'lpm' (built in) and plugin 'rival' (sgframe-rival 0.2): block all but one",
        ]


def test_the_text_has_a_line_for_each_part_and_reason(deploy: Path) -> None:
    lines = run("--config", deploy, "--policy", "lpm").stdout.splitlines()
    at = lines.index("policy")
    assert [line.split() for line in lines[at + 1 : at + 6]] == [
        ["dfs-weight", "sgframe", "0.1.0", "ok"],
        ["fcfs", "sgframe", "0.1.0", "ok"],
        ["asked", "for", "by", f"{deploy}:2,", "which", "command", "line", "--policy", "overrides"],
        ["*", "lpm", "sgframe", "0.1.0", "ok"],
        ["chosen", "by", "command", "line", "--policy"],
    ]


def test_it_lists_even_when_the_settings_cannot_be_read() -> None:
    result = run("--json", "--port", "x")
    assert result.exit_code == 0
    assert all(row["why"] == [] for row in json.loads(result.stdout))
    assert "these settings cannot be used" in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "lines"), [("a.toml", TOML, (2, 7)), ("a.yml", YAML, (1, 4)), ("a.json", JSON, (2, 4))]
)
def test_a_setting_is_found_in_every_kind_of_file(tmp_path: Path, name: str, text: str, lines: tuple[int, int]) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert located(str(file), "policy") == f"{file}:{lines[0]}"
    assert located(str(file), "plugin.lpm.max_overtaken") == f"{file}:{lines[1]}"


@pytest.mark.parametrize("origin", ["default", "environment SGFRAME_PORT", "command line --port"])
def test_what_is_no_file_has_no_line(origin: str) -> None:
    assert located(origin, "port") == origin
