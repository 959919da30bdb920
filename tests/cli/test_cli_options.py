"""The options that set settings: one for each, in any order, never abbreviated."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sgframe.assembly.settings import KEYS
from sgframe_cli.options import CommandLine, settings_options


@click.command()
@click.argument("prompt", required=False)
@settings_options
def probe(command_line: CommandLine, prompt: str | None) -> None:
    configuration = command_line.configure()
    shown = configuration.settings.model_dump(mode="json")
    click.echo(json.dumps({"settings": shown, "origins": dict(configuration.origins), "prompt": prompt}))


def run(*arguments: str, **environ: str) -> dict:
    result = CliRunner().invoke(probe, arguments, env=environ, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(probe, arguments, catch_exceptions=False)
    assert result.exit_code == 2
    return result.stderr


def test_every_setting_has_an_option_with_its_description() -> None:
    names = {parameter.name for parameter in probe.params}
    assert KEYS - {"blocked"} <= names
    text = CliRunner().invoke(probe, ["--help"]).output
    assert "--max-running" in text
    assert "Most requests that run at once." in text
    assert "[default: 64]" in text


def test_nothing_given_sets_nothing() -> None:
    assert set(run()["origins"].values()) == {"default"}


def test_options_reach_the_settings() -> None:
    shown = run("--port", "0", "--log-json", "--kv-memory=1GiB", "--dtype", "float32", "--log-interval", "2")[
        "settings"
    ]
    assert [shown[key] for key in ("port", "log_json", "kv_memory", "dtype", "log_interval")] == [
        0,
        True,
        "1GiB",
        "float32",
        2.0,
    ]


def test_a_flag_can_be_turned_off_against_the_environment() -> None:
    shown = run("--no-log-json", SGFRAME_LOG_JSON="true")
    assert (shown["settings"]["log_json"], shown["origins"]["log_json"]) == (False, "command line --log-json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "FILE", "--port", "1", "hello"),
        ("--port", "1", "--config", "FILE", "hello"),
        ("hello", "--port", "1", "--config", "FILE"),
        ("--port", "1", "hello", "--config=FILE"),
    ],
)
def test_the_config_file_may_stand_anywhere(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "deploy.yaml"
    file.write_text("port: 2\nhost: file\n")
    shown = run(*(word.replace("FILE", str(file)) for word in arguments))
    assert (shown["settings"]["port"], shown["settings"]["host"], shown["prompt"]) == (1, "file", "hello")


def test_a_config_option_without_a_file_is_refused() -> None:
    assert "Option '--config' requires an argument" in refused("--port", "1", "--config")


@pytest.mark.parametrize("word", ["--mod", "--mode", "--max-run", "--conf"])
def test_options_are_never_abbreviated(word: str) -> None:
    assert "No such option" in refused(word, "x")


def test_an_option_and_its_value_in_one_word_are_not_guessed() -> None:
    assert "No such option" in refused("--port 6379")


def test_plugin_words_choose_and_block() -> None:
    shown = run("--plugin", "fcfs", "--plugin", "no:cuda")
    assert shown["settings"]["policy"] == "fcfs"
    assert shown["settings"]["blocked"] == ["cuda"]


def test_help_shows_defaults_as_they_are_written() -> None:
    text = " ".join(CliRunner().invoke(probe, ["--help"]).output.split())
    assert "[default: 1GiB]" in text
    assert "[default: true]" in text
    assert "[default: 5.0]" in text
    assert "[default: None]" not in text


def test_set_reads_toml_else_text() -> None:
    arguments = ["x.a=2", "x.b=true", "x.c=main", "x.d='2'", "y.e=a=b", "y.f="]
    shown = run(*(word for argument in arguments for word in ("--set", argument)))
    assert shown["settings"]["plugin"] == {"x": {"a": 2, "b": True, "c": "main", "d": "2"}, "y": {"e": "a=b", "f": ""}}
    assert shown["origins"]["plugin.x.a"] == "command line --set x.a"


@pytest.mark.parametrize("word", ["x", "x.a", "a=1", ".a=1", "x.=1"])
def test_a_malformed_set_shows_the_form(word: str) -> None:
    assert "NAME.key=value" in refused("--set", word)


def test_shadow_takes_parts_and_their_settings() -> None:
    words = ["policy=fcfs", "cache=radix", "radix.eviction=slru", "radix.ghost_tokens=5"]
    shown = run(*(word for argument in words for word in ("--shadow", argument)))
    assert shown["settings"]["shadow"] == {
        "policy": "fcfs",
        "cache": "radix",
        "plugin": {"radix": {"eviction": "slru", "ghost_tokens": 5}},
    }
    assert shown["origins"]["shadow.policy"] == "command line --shadow policy"
    assert shown["origins"]["shadow.plugin.radix.eviction"] == "command line --shadow radix.eviction"


@pytest.mark.parametrize("word", ["fcfs", "policy", "policy=", "backend=cpu", "=x"])
def test_a_malformed_shadow_shows_the_forms(word: str) -> None:
    assert f"'{word}' is none of policy=NAME, cache=NAME and NAME.key=value" in " ".join(
        refused("--shadow", word).split()
    )
