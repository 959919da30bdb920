"""``sgframe config``: the settings as they come out of defaults, file, environment and command line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from pydantic.json_schema import models_json_schema

from sgframe.assembly.assemble import Configuration
from sgframe.assembly.choice import Choice, Choices, load
from sgframe.assembly.devices import probe
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import ConfigError
from sgframe.interfaces.grammar import Vocabulary
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import SchedulerSpec, SpeculationSpec, build
from sgframe_cli.columns import columns
from sgframe_cli.options import CommandLine, settings_options


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
    _try_out(configuration.settings, choices)
    parts = ", ".join(f"{seam.value} {choice.name}" for seam, choice in choices.items())
    click.echo(f"The settings are right: {parts}")
    found = probe(choices[Seam.BACKEND])
    if not found.usable:
        click.echo(f"Note: backend '{choices[Seam.BACKEND].name}' cannot run here: {found.reason}", err=True)


@config.command()
@settings_options
def schema(command_line: CommandLine) -> None:
    """Print the JSON schema of a config file, with the tables of the chosen parts."""
    click.echo(json.dumps(_schema(command_line.configure().choose()), indent=2))


def _try_out(settings: Settings, choices: Choices) -> None:
    """Build a scheduler, with pages of one token, and what the front is made of. Raises ConfigError."""
    limits = Limits(slots=1, max_running=1, max_step_tokens=1)
    spec = SchedulerSpec(
        limits,
        choices[Seam.CACHE],
        choices[Seam.POLICY],
        settings.admission,
        speculation=SpeculationSpec(choices[Seam.SPECULATOR], vocab_size=1, wide_step=settings.wide_step),
    )
    build(spec, Scheduler, choices.shadow)
    choices[Seam.SOURCE].build()
    for grammar in choices.grammars.values():
        grammar.build(vocabulary=Vocabulary([b"a"], ()))


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
    """What the shadow leaves open is where the service has it from."""
    origins = configuration.origins
    return origins.get(key) or origins.get(key.removeprefix("shadow."), "default")


def _schema(choices: Mapping[Seam, Choice]) -> dict[str, Any]:
    models = [(choice.name, load(choice.settings_model)) for choice in choices.values()]
    unique = dict.fromkeys([Settings, *(model for _, model in models)])
    references, document = models_json_schema([(model, "validation") for model in unique])
    tables: dict[str, Any] = {}
    for name, model in models:
        table = document["$defs"][references[model, "validation"]["$ref"].removeprefix("#/$defs/")]
        known = tables.setdefault(name, {"type": "object", "properties": {}, "additionalProperties": False})
        known["properties"] |= table.get("properties", {})
    settings = document["$defs"].pop("Settings")
    settings["properties"]["plugin"]["properties"] = tables
    return {**settings, "title": "sgframe settings", "$defs": document["$defs"]}
