"""The parts in shadow: how they are set, what they leave open, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sgframe.assembly.assemble import Configuration, configure
from sgframe.assembly.choice import Choice, ShadowChoice
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError

TOML = """
policy = "fcfs"
[plugin.radix]
ghost_tokens = 5
[shadow]
policy = "lpm"
[shadow.plugin.radix]
eviction = "slru"
"""


def configured(
    folder: Path, text: str = "", shadow: dict[str, Any] | None = None, environ: dict[str, str] | None = None
) -> Configuration:
    file = folder / "deploy.toml"
    file.write_text(text or "port = 1")
    return configure({"shadow": shadow}, (), file, environ)


def shadow_of(configuration: Configuration) -> ShadowChoice:
    shadow = configuration.choose().shadow
    assert shadow is not None
    return shadow


def refused(folder: Path, text: str = "", **given: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(folder, text, **given).choose()
    return str(caught.value)


def test_unless_it_is_asked_for_there_is_none(tmp_path: Path) -> None:
    assert configured(tmp_path).choose().shadow is None


def test_a_file_sets_it_and_the_service_is_left_alone(tmp_path: Path) -> None:
    choices = configured(tmp_path, TOML).choose()
    assert choices.shadow is not None
    assert (choices[Seam.POLICY].name, choices[Seam.CACHE].settings) == ("fcfs", {"ghost_tokens": 5})
    assert choices.shadow.policy.name == "lpm"


def test_what_is_left_open_is_as_in_service(tmp_path: Path) -> None:
    shadow = shadow_of(configured(tmp_path, TOML))
    assert (shadow.cache.name, shadow.cache.settings) == ("radix", {"ghost_tokens": 5, "eviction": "slru"})


def test_an_empty_table_runs_the_service_s_parts_again(tmp_path: Path) -> None:
    configuration = configured(tmp_path, "[shadow]")
    choices = configuration.choose()
    assert shadow_of(configuration) == ShadowChoice(choices[Seam.CACHE], choices[Seam.POLICY])


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    configuration = configured(
        tmp_path,
        TOML,
        {"plugin": {"radix": {"eviction": "lfu"}}},
        {"SGFRAME_SHADOW__POLICY": "dfs-weight", "SGFRAME_SHADOW__PLUGIN__RADIX__EVICTION": "fifo"},
    )
    shadow, origins = shadow_of(configuration), configuration.origins
    assert (shadow.policy.name, shadow.cache.settings["eviction"]) == ("dfs-weight", "lfu")
    assert origins["shadow.policy"] == "environment SGFRAME_SHADOW__POLICY"
    assert origins["shadow.plugin.radix.eviction"] == "command line --shadow radix.eviction"
    assert origins["policy"] == str(tmp_path / "deploy.toml")


def test_it_travels_as_plain_data(tmp_path: Path) -> None:
    shadow = shadow_of(configured(tmp_path, TOML))
    assert msgspec.json.decode(msgspec.json.encode(shadow), type=ShadowChoice) == shadow


def test_a_part_is_labelled_by_its_name_and_what_was_set_of_it(tmp_path: Path) -> None:
    shadow = shadow_of(configured(tmp_path, TOML))
    assert (shadow.policy.label, shadow.cache.label) == ("lpm", "radix(eviction=slru, ghost_tokens=5)")


def test_a_label_masks_secrets(make_plugin: Any) -> None:
    hooks = make_plugin("far", "from pydantic import SecretStr\nclass Far(PluginSettings):\n    token: SecretStr")
    choice = Choice(Seam.CACHE, "far", "a:B", {"token": "hunter2"}, f"{hooks.module}:Far", "p")
    assert choice.label == "far(token=**********)"


# ------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("shadow", "message"),
    [
        (
            {"policy": "fcfss"},
            "in the shadow: no plugin offers the policy 'fcfss' (command line --shadow policy); did you mean 'fcfs'?",
        ),
        (
            {"plugin": {"radix": {"evction": "lru"}}},
            "plugin.radix.evction: unknown setting; did you mean 'eviction'? (command line --shadow radix.evction)",
        ),
        (
            {"plugin": {"hash-chain": {"blocks": 1}}},
            "shadow.plugin.hash-chain: nobody reads this table (command line); the shadow's policy is 'lpm' and its cache "
            "'radix'",
        ),
        ({"kv_slots": 3}, "unknown setting 'shadow.kv_slots' (command line --shadow kv_slots)"),
        ({"polcy": "x"}, "unknown setting 'shadow.polcy' (command line --shadow polcy); did you mean 'shadow.policy'?"),
        ({"cache": ""}, "shadow.cache: String should have at least 1 character, found ''"),
        ("fcfs", "command line: shadow must be a table of policy, cache and plugin, found 'fcfs'"),
    ],
)
def test_what_cannot_be_honoured_is_an_error_of_the_shadow(tmp_path: Path, shadow: Any, message: str) -> None:
    assert message in refused(tmp_path, shadow=shadow)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shadow = 3", "deploy.toml: shadow must be a table of policy, cache and plugin, found 3"),
        ("[shadow]\npolicy = 3", "shadow.policy: should be a valid string, found 3; put it in quotes"),
        ("[shadow]\nplugin = 3", "deploy.toml: shadow.plugin must hold a table for each part, found 3"),
        ("[shadow.plugin]\nradix = 3", "deploy.toml: shadow.plugin.radix must be a table of settings, found 3"),
    ],
)
def test_a_file_with_something_else_than_a_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert message in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("SGFRAME_SHADOW_POLICY", "SGFRAME_SHADOW__POLICY"), ("SGFRAME_SHADOW__CACH", "SGFRAME_SHADOW__CACHE")],
)
def test_a_misspelt_variable_names_the_nearest(tmp_path: Path, variable: str, meant: str) -> None:
    message = refused(tmp_path, environ={variable: "lpm"})
    assert message == f"unknown variable {variable}; did you mean '{meant}'?"
