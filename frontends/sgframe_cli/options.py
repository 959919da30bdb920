"""The options that set settings, made from the settings model: one place to name, type and describe each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from sgframe.assembly.assemble import Configuration, configure
from sgframe.assembly.choosing import SHADOWED
from sgframe.assembly.settings import KEYS, Settings
from sgframe.assembly.sources import scalar

F = TypeVar("F", bound=Callable[..., Any])
_METAVARS = {int: "N", float: "SECONDS"}
_SHADOWED = [seam.value for seam in SHADOWED]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What the settings' options said: values by key, the words of ``--plugin``, the config file."""

    values: Mapping[str, Any]
    words: tuple[str, ...] = ()
    config_file: Path | None = None

    def configure(self) -> Configuration:
        """Settings and plugins, from this command line, the environment and the file. Raises ConfigError."""
        return configure(self.values, self.words, self.config_file, os.environ)


def settings_options(command: F) -> F:
    """Add an option for every setting; the command gets them as one argument, ``command_line``."""

    @wraps(command)
    def collect(
        *, plugin: tuple[str, ...], set_: tuple[Any, ...], shadow: tuple[Any, ...], config: Path | None, **options: Any
    ) -> Any:
        values = {key: options.pop(key) for key in KEYS & options.keys()}
        values["plugin"] = tables(set_)
        values["shadow"] = _shadow_table(shadow)
        return command(command_line=CommandLine(values, plugin, config), **options)

    decorated: Any = collect
    for option in reversed([*_COMMON, *map(_option, _OPTION_KEYS)]):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _option(key: str) -> Callable[[F], F]:
    field = Settings.model_fields[key]
    name = "--" + key.replace("_", "-")
    flags = f"{name}/--no-{name[2:]}" if field.annotation is bool else name
    default = str(field.default).lower() if field.annotation is bool else field.default
    shown = "" if default is None else f"  [default: {default}]"
    return click.option(flags, key, type=_type(field), default=None, help=f"{field.description}.{shown}")


def _type(field: FieldInfo) -> Any:
    """Text for all but flags and choices: reading numbers is left to the settings, whose errors name the origin."""
    if field.annotation is bool:
        return bool
    if get_origin(field.annotation) is Literal:
        return click.Choice(get_args(field.annotation))
    return _Text(_METAVARS.get(field.annotation, "TEXT"))  # type: ignore[arg-type]


class _Text(click.ParamType[str]):
    def __init__(self, name: str) -> None:
        self.name = name


class Assignment(click.ParamType[tuple[str, str, Any]]):
    """``NAME.key=value``, the value read as TOML where it is TOML, else as text."""

    name = "NAME.key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, Any]:
        target, equals, text = value.partition("=")
        part, dot, key = target.partition(".")
        if not (part and dot and key and equals):
            self.fail(f"{value!r} is not of the form NAME.key=value, for example lpm.max_overtaken=8192", param, ctx)
        return part, key, scalar(text)


class ShadowAssignment(Assignment):
    """``policy=NAME``, ``cache=NAME``, or ``NAME.key=value`` for a setting of one of them."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, Any]:
        key, equals, name = value.partition("=")
        if "." in key:
            return super().convert(value, param, ctx)
        if key not in _SHADOWED or not (equals and name):
            self.fail(f"{value!r} is none of policy=NAME, cache=NAME and NAME.key=value", param, ctx)
        return "", key, name


def _shadow_table(assignments: tuple[tuple[str, str, Any], ...]) -> dict[str, Any] | None:
    """The table ``shadow``; None when nothing was said of it."""
    if not assignments:
        return None
    parts = tables(assignments)
    return {**parts.pop("", {}), "plugin": parts}


def tables(assignments: tuple[tuple[str, str, Any], ...]) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for part, key, value in assignments:
        tables.setdefault(part, {})[key] = value
    return tables


_OPTION_KEYS = [key for key in Settings.model_fields if key in KEYS and key != "blocked"]
_COMMON = [
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Config file: .toml, .yaml, .yml or .json.  [env: SGFRAME_CONFIG]",
    ),
    click.option(
        "--plugin",
        multiple=True,
        metavar="NAME",
        help="Choose the part NAME for the seam that offers it; no:NAME leaves a plugin out. Repeatable.",
    ),
    click.option("--set", "set_", multiple=True, type=Assignment(), help="A setting of a part. Repeatable."),
    click.option(
        "--shadow",
        multiple=True,
        type=ShadowAssignment(),
        help="Measure a second policy or cache beside the service: policy=NAME, cache=NAME, or NAME.key=value for a setting "
        "of one of them. Repeatable.",
    ),
]
