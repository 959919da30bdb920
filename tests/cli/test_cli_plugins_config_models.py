"""``sgframe plugins``, ``config`` and ``models``: what they print, and when they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from sgframe import PluginSettings, Provider, hookimpl
from sgframe.assembly import plugins as assembly
from sgframe.assembly.plugins import BUILTIN, Plugin
from sgframe.interfaces.source import CatalogueEntry, ModelSource
from sgframe_cli.group import main

SIMULATED = ("--backend", "simulated", "--source", "simulated")


class SecretiveSettings(PluginSettings):
    token: SecretStr = SecretStr("")
    rounds: int = 3


class Shelf(ModelSource):
    def __init__(self, settings: SecretiveSettings) -> None:
        self.settings = settings

    def catalogue(self) -> list[CatalogueEntry]:
        return [CatalogueEntry("tiny", "a small model", "Apache-2.0", 5 * 2**20, True)]

    def resolve(self, name, progress):
        raise NotImplementedError

    def tokenizer(self, checkpoint):
        raise NotImplementedError


@hookimpl
def sgframe_model_sources() -> list[Provider]:
    return [Provider("shelf", f"{__name__}:Shelf", "models on a shelf", SecretiveSettings)]


@pytest.fixture(autouse=True)
def known_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in plugins and this module, whatever else is installed."""
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    known = [Plugin(name, module) for name, module in BUILTIN.items()]
    known.append(Plugin("shelf", __name__, "sgframe-shelf", "0.3"))
    known.append(Plugin("worm", "no_such_module", "sgframe-worm", "0.1"))
    monkeypatch.setattr(assembly, "installed", lambda: known)


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environ)


def listed(*arguments: str) -> list[dict]:
    return json.loads(run("plugins", "--json", *arguments).stdout)


def find(rows: list[dict], **wanted: object) -> dict:
    (row,) = (row for row in rows if wanted.items() <= row.items())
    return row


# ------------------------------------------------------------------------------------------------ plugins


def test_plugins_tells_where_each_part_comes_from_and_what_is_chosen() -> None:
    rows = listed("--plugin", "fcfs")
    assert find(rows, name="shelf") == {
        "seam": "source",
        "name": "shelf",
        "summary": "models on a shelf",
        "chosen": False,
        "plugin": "shelf",
        "source": "sgframe-shelf 0.3",
        "state": "ok",
        "reason": "",
    }
    assert [row["name"] for row in rows if row["chosen"]] == [
        "radix",
        "fcfs",
        "compressed-fsm",
        "none",
        "zmq",
        "hf",
        "cpu",
        "local",
    ]


def test_plugins_lists_the_broken_and_the_blocked() -> None:
    rows = listed("--plugin", "no:shelf")
    assert find(rows, plugin="worm")["state"] == "broken"
    assert find(rows, plugin="worm")["reason"] == (
        "its entry point names the module no_such_module, which is not there; "
        "upgrade or uninstall sgframe-worm, or leave it out by --plugin no:worm"
    )
    assert find(rows, plugin="shelf") == find(rows, state="blocked")


def test_an_unknown_subcommand_may_be_that_of_a_plugin_which_failed() -> None:
    result = run("wriggle")
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "Error: No such command 'wriggle'; a plugin that failed may have it:\n"
        "plugin 'worm' (sgframe-worm 0.1) failed: its entry point names the module no_such_module, which is not there; "
        "upgrade or uninstall sgframe-worm, or leave it out by --plugin no:worm\n"
    )


def test_plugins_says_why_a_backend_cannot_run_here() -> None:
    rows = listed()
    assert find(rows, seam="backend", name="simulated")["state"] == "ok"
    cuda = find(rows, seam="backend", name="cuda")
    assert (cuda["state"] == "ok") == (cuda["reason"] == "")


@pytest.mark.parametrize(
    "arguments", [("--policy", "nope"), ("--plugin", "nope"), ("--port", "x"), ("--config", "no.toml")]
)
def test_plugins_lists_even_when_the_settings_are_wrong(arguments: tuple[str, ...]) -> None:
    result = run("plugins", "--json", *arguments)
    assert result.exit_code == 0
    assert find(json.loads(result.stdout), name="lpm")
    assert "these settings cannot be used" in result.stderr


def test_plugins_prints_aligned_columns() -> None:
    lines = run("plugins").stdout.splitlines()
    assert lines[0].split() == ["SEAM", "NAME", "PLUGIN", "SOURCE", "STATE", "ABOUT"]
    column = lines[0].index("SOURCE")
    assert {line[column : column + 8] for line in lines[1:]} == {"built in", "sgframe-"}
    assert "* " in next(line for line in lines if " lpm " in line)


# ------------------------------------------------------------------------------------------------ config


def test_show_prints_each_value_with_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text("log_json = false\n[plugin.shelf]\nrounds = 4\n")
    result = run("config", "show", "--config", str(file), "--port", "30000", "--plugin", "shelf", SGFRAME_HOST="::1")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}
    assert rows["port"] == ["30000", "command line --port"]
    assert rows["host"] == ['"::1"', "environment SGFRAME_HOST"]
    assert rows["log_json"] == ["false", f"{file}:1"]
    assert rows["source"] == ['"shelf"', "command line --plugin shelf"]
    assert rows["model"] == ['"smollm2-135m"', "default"]
    assert rows["plugin.shelf.rounds"] == ["4", f"{file}:3"]
    assert rows["plugin.lpm.max_overtaken"] == ["16384", "default"]


def test_show_takes_no_file_that_is_called_like_an_origin_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "default").write_bytes(b"model: \xff")
    monkeypatch.chdir(tmp_path)
    result = run("config", "show")
    assert result.exit_code == 0
    assert "default:" not in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
def test_output_that_finds_no_room_ends_with_the_reason_and_no_traceback() -> None:
    command = [sys.executable, "-m", "sgframe", "config", "show"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the output cannot be written: No space left on device; make room for it\n")
    assert "Traceback" not in done.stderr


def test_show_tells_what_runs_in_shadow_and_where_that_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text("[plugin.radix]\nghost_tokens = 5\n[shadow]\npolicy = 'fcfs'\n")
    arguments = ("--config", str(file), *SIMULATED, "--cache", "radix", "--shadow", "radix.eviction=slru")
    result = run("config", "show", *arguments)
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}
    assert result.exit_code == 0
    assert rows["shadow.policy"] == ['"fcfs"', f"{file}:4"]
    assert rows["shadow.cache"] == ['"radix"', "command line --cache"]
    assert rows["shadow.plugin.radix.eviction"] == ['"slru"', "command line --shadow radix.eviction"]
    assert rows["shadow.plugin.radix.ghost_tokens"] == ["5", f"{file}:2"]
    assert rows["plugin.radix.eviction"] == ['"lru"', "default"]


def test_show_says_when_nothing_runs_in_shadow() -> None:
    assert json.loads(run("config", "show", "--json").stdout)["shadow"] == {"value": None, "origin": "default"}


def test_show_masks_secrets() -> None:
    result = run("config", "show", "--api-key", "hunter2", "--source", "shelf", "--set", "shelf.token=hunter3")
    assert result.exit_code == 0
    assert "hunter" not in result.stdout
    assert result.stdout.count("**********") == 2
    unchosen = run("config", "show", *SIMULATED, "--set", "shelf.token=hunter3")
    assert "hunter" not in unchosen.output


def test_show_as_json() -> None:
    shown = json.loads(run("config", "show", "--json", SGFRAME_PORT="1").stdout)
    assert shown["port"] == {"value": 1, "origin": "environment SGFRAME_PORT"}


def test_show_prints_what_it_can_before_it_fails() -> None:
    result = run("config", "show", "--policy", "nope")
    assert result.exit_code == 2
    assert '"nope"' in result.stdout
    assert "Error: no plugin offers the policy 'nope' (command line --policy)" in result.stderr


def test_check_accepts_what_could_be_served() -> None:
    result = run("config", "check", *SIMULATED, "--plugin", "fcfs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "The settings are right: cache radix, policy fcfs, grammar compressed-fsm, speculator none, transport zmq, "
        "source simulated, backend simulated, launcher local\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "lpm.max_overtakn=3"], "plugin.lpm.max_overtakn: unknown setting; did you mean 'max_overtaken'?"),
        (
            ["--policy", "fcfs", "--set", "lpm.max_overtaken=3"],
            "nobody reads it (command line --set lpm.max_overtaken)",
        ),
        (["--set", "radix.eviction=nomod:X"], "the eviction strategy 'nomod:X' cannot be imported"),
        (
            ["--shadow", "radix.eviction=nomod:X"],
            "in the shadow: the eviction strategy 'nomod:X' cannot be imported",
        ),
        (["--set", "lpn.max_overtaken=3"], "plugin.lpn: no plugin offers a part 'lpn'"),
        (
            ["--shadow", "policy=nope"],
            "in the shadow: no plugin offers the policy 'nope' (command line --shadow policy)",
        ),
        (["--plugin", "none"], "say --cache none or --grammar none or --speculator none"),
        (["--plugin", "no:nope"], "cannot block 'nope'"),
        (["--config", "nope.toml"], "nope.toml: cannot be read: No such file or directory"),
    ],
)
def test_check_refuses_with_exit_code_2(arguments: list[str], message: str) -> None:
    result = run("config", "check", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr


# ------------------------------------------------------------------------------------------------ models


def test_models_prints_the_sources_catalogue() -> None:
    result = run("models", "--source", "shelf")
    assert [line.split(maxsplit=5) for line in result.stdout.splitlines()] == [
        ["NAME", "SIZE", "LICENCE", "CACHED", "SUMMARY"],
        ["tiny", "5", "MiB", "Apache-2.0", "yes", "a small model"],
    ]


def test_models_as_json() -> None:
    assert json.loads(run("models", "--source", "shelf", "--json").stdout) == [
        {"name": "tiny", "summary": "a small model", "licence": "Apache-2.0", "download_bytes": 5242880, "cached": True}
    ]


def test_models_of_a_source_that_is_not_there_fails() -> None:
    assert run("models", "--source", "nope").exit_code == 2
