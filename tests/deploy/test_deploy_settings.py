"""The config files of ``examples/deploy``: the same in TOML and YAML, right here, and clear on what this machine lacks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from pages import HOUSE

from sgframe.assembly.assemble import configure
from sgframe.assembly.config_files import parse
from sgframe.assembly.devices import probe
from sgframe.assembly.plugins import load_plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings, read_settings
from sgframe_cli.group import main
from sgframe_cli.schema import config_schema

DEPLOY = HOUSE / "examples" / "deploy"
FILES = sorted((DEPLOY / "settings").iterdir())
NAMES = ("ascend", "four-gpus", "laptop", "one-gpu", "two-parts-swapped")
KUBERNETES = [DEPLOY / "kubernetes" / folder / "deploy.toml" for folder in ("base", "gpu")]


@cache
def schema() -> dict[str, Any]:
    return config_schema(load_plugins())


def check(file: Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["config", "check", "--config", str(file)])
    return result.exit_code, result.stdout, result.stderr


def test_each_deployment_is_there_in_both_notations() -> None:
    assert [file.name for file in FILES] == [f"{name}{suffix}" for name in NAMES for suffix in (".toml", ".yaml")]


@pytest.mark.parametrize("name", NAMES)
def test_both_notations_say_the_same(name: str) -> None:
    toml, yaml = (DEPLOY / "settings" / f"{name}{suffix}" for suffix in (".toml", ".yaml"))
    assert parse(toml) == parse(yaml)
    assert read_settings(config_file=toml).settings == read_settings(config_file=yaml).settings


@pytest.mark.parametrize("name", NAMES)
def test_both_notations_explain_the_same(name: str) -> None:
    comments = [
        [
            line.partition("#")[2]
            for line in (DEPLOY / "settings" / f"{name}{suffix}").read_text().splitlines()
            if "#" in line
        ]
        for suffix in (".toml", ".yaml")
    ]
    assert comments[0] == comments[1] != []


@pytest.mark.parametrize("file", [*FILES, *KUBERNETES], ids=str)
def test_a_file_fits_the_schema(file: Path) -> None:
    jsonschema.validate(parse(file), schema())


@pytest.mark.parametrize("file", [*FILES, *KUBERNETES], ids=str)
def test_a_file_is_right_and_what_this_machine_lacks_for_it_is_told(file: Path) -> None:
    configuration = configure(config_file=file)
    found = probe(configuration.choose()[Seam.BACKEND])
    code, printed, noted = check(file)
    assert code == 0, noted
    assert printed.startswith("The settings are right: cache ")
    if found.usable and found.max_ranks >= configuration.settings.local_ranks:
        assert noted == ""
    else:
        assert noted.startswith(f"Note: backend '{configuration.settings.backend}' ")
        assert (found.reason or f"has room for {found.max_ranks} ranks") in noted


@pytest.mark.parametrize("name", ["laptop", "two-parts-swapped"])
def test_what_needs_no_device_lacks_nothing_here(name: str) -> None:
    assert check(DEPLOY / "settings" / f"{name}.toml")[2] == ""


@pytest.mark.parametrize(
    ("name", "backend", "ranks"), [("one-gpu", "cuda", 1), ("four-gpus", "cuda", 4), ("ascend", "ascend", 2)]
)
def test_a_file_is_for_what_its_name_says(name: str, backend: str, ranks: int) -> None:
    settings = read_settings(config_file=DEPLOY / "settings" / f"{name}.toml").settings
    assert (settings.backend, settings.tp_size) == (backend, ranks)


def test_two_parts_are_swapped() -> None:
    settings = read_settings(config_file=DEPLOY / "settings" / "two-parts-swapped.toml").settings
    swapped = [
        seam.value for seam in Seam if getattr(settings, seam.value) != Settings.model_fields[seam.value].default
    ]
    assert swapped == ["cache", "policy"]
