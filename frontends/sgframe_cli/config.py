"""``sgframe config``: the settings as they come out of defaults, file, environment and command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from sgframe.assembly.assemble import Configuration
from sgframe.assembly.choice import Choice
from sgframe.errors import BackendUnavailable, ConfigError
from sgframe_cli.columns import columns
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.origins import located
from sgframe_cli.schema import config_schema
from sgframe_cli.trying import try_parts


@click.group()
def config() -> None:
    """Show or check the settings, or print their JSON schema."""


@config.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: key to value and origin.")
def show(command_line: CommandLine, as_json: bool) -> None:
    """Print every setting with its value and where that comes from."""
    configuration = command_line.configure()
    values = _values(configuration)
    if as_json:
        table = {key: {"value": value, "origin": _origin(configuration, key)} for key, value in values.items()}
        click.echo(json.dumps(table, indent=2))
    else:
        rows = [
            (key, json.dumps(value, ensure_ascii=False), _origin(configuration, key)) for key, value in values.items()
        ]
        click.echo(columns([("KEY", "VALUE", "ORIGIN"), *rows]))
    configuration.choose()


@config.command()
@settings_options
def check(command_line: CommandLine) -> None:
    """Exit with 0 if a server could be made of these settings, else say what is wrong and exit with 2.

    The parts are built, but for what needs the device: whether that is there is only noted, for a file may be checked on
    another machine than it is for, and whether its pages suit the cache is seen at the start.
    """
    configuration = command_line.configure()
    choices = configuration.choose()
    try_parts(configuration.settings, choices)
    parts = ", ".join(f"{seam.value} {choice.name}" for seam, choice in choices.items())
    click.echo(f"The settings are right: {parts}")
    try:
        configuration.choose_usable()
    except BackendUnavailable as missing:
        click.echo(f"Note: {missing}", err=True)


@config.command()
@settings_options
def schema(command_line: CommandLine) -> None:
    """Print the JSON schema of a config file, with the tables of all parts on offer, for editors to check against."""
    click.echo(json.dumps(config_schema(command_line.configure().plugins), indent=2))


def _values(configuration: Configuration) -> dict[str, Any]:
    """Dotted key → value in JSON's types, secrets masked. Of parts that are not chosen, only what was given."""
    settings, shadow = configuration.settings, configuration.settings.shadow
    parts: list[Choice] = []
    shadows: list[Choice] = []
    with contextlib.suppress(ConfigError):  # shown as far as it goes; the command ends with this error
        choices = configuration.choose()
        parts += choices.values()
        shadows += (choices.shadow.policy, choices.shadow.cache) if choices.shadow else ()
    values = settings.model_dump(mode="json", exclude={"plugin", "shadow"}) | _tables(settings.plugin, parts)
    if shadow is None:
        return values | {"shadow": None}
    values |= {"shadow.policy": shadow.policy or settings.policy, "shadow.cache": shadow.cache or settings.cache}
    return values | {f"shadow.{key}": value for key, value in _tables(shadow.plugin, shadows).items()}


def _tables(given: Mapping[str, Mapping[str, Any]], parts: Sequence[Choice]) -> dict[str, Any]:
    """The settings of ``parts`` by dotted key, and of what else is ``given`` the keys."""
    tables = {name: dict.fromkeys(table, "(not checked)") for name, table in given.items()}
    for choice in parts:
        tables[choice.name] = tables.get(choice.name, {}) | choice.validated().model_dump(mode="json")
    return {f"plugin.{name}.{key}": value for name, table in tables.items() for key, value in table.items()}


def _origin(configuration: Configuration, key: str) -> str:
    """What the shadow leaves open is where the service has it from; in a file it is found to the line."""
    origins, own = configuration.origins, key.removeprefix("shadow.")
    return located(origins[key], key) if key in origins else located(origins.get(own, "default"), own)
