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
COMMAND_LINE = "command line"
ENVIRONMENT = "environment"
"""How the origins of what was said for one start begin; that of a file is its path."""


class Given(NamedTuple):
    """One setting as it was found: ``("port",)``, ``("plugin", "lpm", "max_overtaken")``, ``("shadow", "policy")``.

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
            given += _tables((key,), value, str(file), lambda _: str(file))
        elif key == "shadow":
            given += _shadow(value, str(file), lambda _: str(file))
        else:
            given.append(Given((key,), value, str(file)))
    return given


def from_command_line(values: Mapping[str, Any]) -> list[Given]:
    """``values`` maps keys to values, None where an option was not given; ``plugin`` and ``shadow`` hold tables."""
    given: list[Given] = []
    for key, value in values.items():
        if key == "plugin":
            given += _tables((key,), value, COMMAND_LINE, lambda setting: f"{COMMAND_LINE} --set {setting}")
        elif key == "shadow" and value is not None:
            given += _shadow(value, COMMAND_LINE, lambda setting: f"{COMMAND_LINE} --shadow {setting}")
        elif value is not None:
            option = "--plugin" if key == "blocked" else f"--{key.replace('_', '-')}"
            given.append(Given((key,), value, f"{COMMAND_LINE} {option}", isinstance(value, str)))
    return given


def from_environment(environ: Mapping[str, str], keys: Collection[str]) -> list[Given]:
    """The variables ``SGFRAME_KEY`` and ``SGFRAME_PLUGIN__NAME__KEY``, and of the shadow ``SGFRAME_SHADOW__POLICY``,
    ``…__CACHE`` and ``…__PLUGIN__NAME__KEY``; an empty one counts as unset.

    Raises ConfigError for every other variable that begins with the prefix. A hyphen in NAME is written as underscore.
    """
    given, problems = [], []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or not text:
            continue
        origin = f"{ENVIRONMENT} {variable}"
        match variable.removeprefix(PREFIX).lower().split("__"):
            case ["blocked"]:
                names = [name.strip() for name in text.split(",")]
                given.append(Given(("blocked",), [name for name in names if name], origin))
            case [key] if key in keys:
                given.append(Given((key,), text, origin, is_text=True))
            case ["shadow", "policy" | "cache" as key]:
                given.append(Given(("shadow", key), text, origin))
            case [*shadow, "plugin", name, setting] if shadow in ([], ["shadow"]) and name and setting:
                given.append(Given((*shadow, "plugin", name.replace("_", "-"), setting), scalar(text), origin))
            case _:
                problems.append(f"unknown variable {variable}{_advice(variable, keys)}")
    if problems:
        raise ConfigError("\n".join(problems))
    return given


def scalar(text: str) -> Any:
    """The TOML value that ``text`` spells (``true``, ``2``, ``0.5``, ``"2"``, ``[1, 2]``), or the text itself."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML, or a number or a nesting that is too long to be read
        return text
    return document["value"] if len(document) == 1 else text


def _tables(path: tuple[str, ...], value: Any, where: str, origin: Callable[[str], str]) -> list[Given]:
    """The settings of the parts' tables below ``path``, and an entry for each table, so that an empty one is looked at too.

    ``origin`` says of ``NAME.key`` where it stands.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {'.'.join(path)} must hold a table for each part, found {value!r}")
    given = []
    for name, table in value.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where}: {'.'.join(path)}.{name} must be a table of settings, found {table!r}")
        given.append(Given((*path, str(name)), None, where))
        given += [Given((*path, str(name), str(key)), item, origin(f"{name}.{key}")) for key, item in table.items()]
    return given


def _shadow(value: Any, where: str, origin: Callable[[str], str]) -> list[Given]:
    """The settings of the table ``shadow``, and an entry for itself: an empty one asks for a shadow, too."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: shadow must be a table of policy, cache and plugin, found {value!r}")
    given = [Given(("shadow",), None, where)]
    for key, item in value.items():
        if key == "plugin":
            given += _tables(("shadow", "plugin"), item, where, origin)
        else:
            given.append(Given(("shadow", str(key)), item, origin(str(key))))
    return given


def _advice(variable: str, keys: Collection[str]) -> str:
    """What the variable was probably meant to be."""
    rest = variable.removeprefix(PREFIX)
    if close := nearest(rest, [*(key.upper() for key in keys), "SHADOW__POLICY", "SHADOW__CACHE"], PREFIX):
        return close
    name, _, setting = rest.removeprefix("PLUGIN").strip("_").partition("_")
    return f"; a part's setting is written {PREFIX}PLUGIN__{name or 'NAME'}__{setting.strip('_') or 'KEY'}"
