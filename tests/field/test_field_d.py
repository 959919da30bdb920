"""What went wrong with other servers' settings, asked of the ``sgframe`` command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sgframe_cli.group import main


def sgframe(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environ)


def shown(*arguments: str, **environ: str) -> dict[str, Any]:
    """Key → value and origin, as ``sgframe config show`` prints them."""
    result = sgframe("config", "show", "--json", *arguments, **environ)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*arguments: str, **environ: str) -> str:
    result = sgframe("config", "show", *arguments, **environ)
    assert result.exit_code == 2
    return result.stderr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deploy.yaml"


@pytest.mark.parametrize("word", ["false", "False"])
def test_false_in_a_file_is_honoured(file: Path, word: str) -> None:
    file.write_text(f"log_json: {word}\n")
    assert shown("--config", str(file))["log_json"] == {"value": False, "origin": f"{file}:1"}
    assert shown("--config", str(file), SGFRAME_LOG_JSON="true")["log_json"]["value"] is True
    assert shown("--config", str(file), "--no-log-json", SGFRAME_LOG_JSON="true")["log_json"]["value"] is False


def test_an_explicit_option_beats_environment_and_file_and_says_so(file: Path) -> None:
    file.write_text("max_running: 16\nmax_waiting: 16\npolicy: fcfs\nport: 16\n")
    values = shown("--config", str(file), "--max-running", "64", SGFRAME_MAX_RUNNING="32", SGFRAME_MAX_WAITING="32")
    assert values["max_running"] == {"value": 64, "origin": "command line --max-running"}  # which is the default, too
    assert values["max_waiting"] == {"value": 32, "origin": "environment SGFRAME_MAX_WAITING"}
    assert values["port"] == {"value": 16, "origin": f"{file}:4"}
    assert values["host"] == {"value": "127.0.0.1", "origin": "default"}


def test_a_part_s_setting_follows_the_same_order(file: Path) -> None:
    file.write_text("plugin:\n  lpm:\n    max_overtaken: 16\n")
    by_file = shown("--config", str(file))["plugin.lpm.max_overtaken"]
    by_environment = shown("--config", str(file), SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN="32")["plugin.lpm.max_overtaken"]
    by_option = shown("--config", str(file), "--set", "lpm.max_overtaken=1", SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN="32")
    assert by_file == {"value": 16, "origin": f"{file}:3"}
    assert by_environment == {"value": 32, "origin": "environment SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN"}
    assert by_option["plugin.lpm.max_overtaken"] == {"value": 1, "origin": "command line --set lpm.max_overtaken"}


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json", ".toml"])
@pytest.mark.parametrize("form", [("--config", "FILE"), ("--config=FILE",)])
@pytest.mark.parametrize("last", [True, False])
def test_the_file_may_stand_anywhere_in_any_format(
    tmp_path: Path, suffix: str, form: tuple[str, ...], last: bool
) -> None:
    file = tmp_path / f"deploy{suffix}"
    file.write_text({".json": '{"port": 5}', ".toml": "port = 5"}.get(suffix, "port: 5"))
    named = [word.replace("FILE", str(file)) for word in form]
    options = ["--model", "m"]
    values = shown(*(options + named if last else named + options))
    assert (values["port"]["value"], values["model"]["value"]) == (5, "m")


def test_a_config_option_without_a_file_is_refused() -> None:
    assert "'--config' requires an argument" in refused("--config")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot be read"),
        ("", "is empty"),
        ("- a\n", "found list"),
        ("text", "found str"),
        ("a: b: c", "mapping"),
    ],
)
def test_an_unfit_file_is_named(file: Path, content: str | None, fault: str) -> None:
    if content is not None:
        file.write_text(content)
    error = refused("--config", str(file))
    assert str(file) in error
    assert fault in error


def test_an_option_and_its_value_as_one_word_are_an_error_that_shows_the_option() -> None:
    assert "No such option '--port 6379'. Did you mean '--port'?" in refused("--port 6379")


def test_nothing_is_abbreviated_and_the_option_wins(file: Path) -> None:
    file.write_text("model: from-file\n")
    assert shown("--config", str(file))["model"]["value"] == "from-file"
    assert shown("--config", str(file), "--model", "mine")["model"]["value"] == "mine"
    assert "No such option '--mod'" in refused("--mod", "mine")
    file.write_text("mod: from-file\n")
    assert f"unknown setting 'mod' ({file}); did you mean 'model'?" in refused("--config", str(file))


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("SGFRAME_PORTT", "SGFRAME_PORT"),
        ("SGFRAME_CACHE_PAGE_SIZE", "SGFRAME_PLUGIN__CACHE__PAGE_SIZE"),
        ("SGFRAME_LPM__MAX_OVERTAKEN", "SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN"),
        ("SGFRAME_PLUGIN_LPM_MAX_OVERTAKEN", "SGFRAME_PLUGIN__LPM__MAX_OVERTAKEN"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_right_one(variable: str, nearest: str) -> None:
    error = refused(**{variable: "1"})
    assert f"unknown variable {variable}" in error
    assert nearest in error


def test_an_empty_variable_counts_as_unset(file: Path) -> None:
    file.write_text("port: 5\n")
    assert shown("--config", str(file), SGFRAME_PORT="")["port"] == {"value": 5, "origin": f"{file}:1"}
    assert shown(SGFRAME_CONFIG="")["port"]["origin"] == "default"


def test_a_foreign_dotenv_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("DB_HOST=db\nSGFRAME_PORT=1\nnot even = a = setting\n")
    monkeypatch.chdir(tmp_path)
    assert shown()["port"] == {"value": 30000, "origin": "default"}
