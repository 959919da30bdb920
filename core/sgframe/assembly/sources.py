"""Reads settings from where they stand: environment, command line, config file. Knows no types; keeps each one's origin."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sgframe.assembly.config_files import parse
from sgframe.assembly.hints import nearest
from sgframe.errors import ConfigError

PREFIX = "SGFRAME_"


class Given(NamedTuple):
    """One setting as it was found: ``("port",)`` or ``("plugin", "lpm", "max_rounds")``.

    ``is_text``: the value is text that may stand for a number or a truth value.
    """

    path: tuple[str, ...]
    value: Any
    origin: str
    is_text: bool = False


def from_file(file: Path) -> list[Given]:
    """Raises ConfigError, naming the file, when it cannot be read as TOML, YAML or JSON or has unfit tables."""
    given: list[Given] = []
    for key, value in parse(file).items():
        if key == "plugin":
            given += _tables(value, str(file), lambda *_: str(file))
        else:
            given.append(Given((key,), value, str(file)))
    return given


def from_command_line(values: Mapping[str, Any]) -> list[Given]:
    """``values`` maps keys to values, None where an option was not given; ``plugin`` holds tables."""
    given: list[Given] = []
    for key, value in values.items():
        if key == "plugin":
            given += _tables(value, "command line", lambda name, setting: f"command line --set {name}.{setting}")
        elif value is not None:
            option = "--plugin" if key == "blocked" else f"--{key.replace('_', '-')}"
            given.append(Given((key,), value, f"command line {option}", isinstance(value, str)))
    return given


def from_environment(environ: Mapping[str, str], keys: Collection[str]) -> list[Given]:
    """The variables ``SGFRAME_KEY`` and ``SGFRAME_PLUGIN__NAME__KEY``; an empty one counts as unset.

    Raises ConfigError for every other variable that begins with the prefix. A hyphen in NAME is written as underscore.
    """
    given, problems = [], []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or not text:
            continue
        origin = f"environment {variable}"
        match variable.removeprefix(PREFIX).lower().split("__"):
            case ["blocked"]:
                names = [name.strip() for name in text.split(",")]
                given.append(Given(("blocked",), [name for name in names if name], origin))
            case [key] if key in keys:
                given.append(Given((key,), text, origin, is_text=True))
            case ["plugin", name, setting] if name and setting:
                given.append(Given(("plugin", name.replace("_", "-"), setting), scalar(text), origin))
            case _:
                problems.append(f"unknown variable {variable}{_advice(variable, keys)}")
    if problems:
        raise ConfigError("\n".join(problems))
    return given


def scalar(text: str) -> Any:
    """The TOML value that ``text`` spells (``true``, ``2``, ``0.5``, ``"2"``, ``[1, 2]``), or the text itself."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return document["value"] if len(document) == 1 else text


def _tables(value: Any, where: str, origin: Callable[[str, str], str]) -> list[Given]:
    """The settings of the parts' tables, and an entry for each table, so that an empty one is looked at too."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: plugin must hold a table for each part, found {value!r}")
    given = []
    for name, table in value.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where}: plugin.{name} must be a table of settings, found {table!r}")
        given.append(Given(("plugin", str(name)), None, where))
        given += [Given(("plugin", str(name), str(key)), item, origin(name, key)) for key, item in table.items()]
    return given


def _advice(variable: str, keys: Collection[str]) -> str:
    """What the variable was probably meant to be."""
    rest = variable.removeprefix(PREFIX)
    if close := nearest(rest, [key.upper() for key in keys], PREFIX):
        return close
    name, _, setting = rest.removeprefix("PLUGIN").strip("_").partition("_")
    return f"; a part's setting is written {PREFIX}PLUGIN__{name or 'NAME'}__{setting.strip('_') or 'KEY'}"
