"""Where settings stand, to the line; and what was asked for but overridden by a source of higher rank."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgframe.assembly.settings import CONFIG_VARIABLE, KEYS, Settings
from sgframe.assembly.sources import from_command_line, from_environment, from_file
from sgframe_cli.options import CommandLine

if TYPE_CHECKING:
    from yaml import Node

_MAPPING = "tag:yaml.org,2002:map"
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_KEY = re.compile(r"\s*([\w\"'. -]+?)\s*=")


def asked_for(command_line: CommandLine, key: str) -> list[tuple[Any, str]]:
    """Value and origin of the setting ``key`` in the sources that have it, in rising order, the default first.

    The words of ``--plugin`` are not among them. The sources have been read without an error before.
    """
    variables = {name: text for name, text in os.environ.items() if name != CONFIG_VARIABLE}
    file = command_line.config_file or (Path(named) if (named := os.environ.get(CONFIG_VARIABLE)) else None)
    given = [
        *(from_file(file) if file else ()),
        *from_environment(variables, KEYS),
        *from_command_line(command_line.values),
    ]
    found = [(each.value, located(each.origin, key)) for each in given if each.path == (key,)]
    return [(Settings.model_fields[key].default, "default"), *found]


def located(origin: str, key: str) -> str:
    """``origin``, and if it is a file the line on which the setting ``key`` stands in it, or the table that holds it."""
    file, path = Path(origin), tuple(key.split("."))
    if not (file.suffix and file.is_file()):  # a config file has a suffix; a file may be called 'default', too
        return origin
    lines = _lines(file.read_text(encoding="utf-8-sig"), file.suffix.lower() == ".toml")
    line = next((lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in lines), None)
    return f"{origin}:{line}" if line else origin


@cache  # each of the settings asks
def _lines(text: str, is_toml: bool) -> Mapping[tuple[str, ...], int]:
    """The line of each key in a file that has been read without an error before."""
    if is_toml:
        return dict(_toml(text.splitlines()))
    import yaml  # noqa: PLC0415 (slow, and needed for few files)

    try:
        return dict(_nodes(yaml.compose(text, yaml.SafeLoader)))  # JSON is YAML, all but a little
    except yaml.YAMLError:
        return {}


def _toml(lines: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines, 1):
        if header := _TABLE.match(line):
            table = _path(header[1])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_path(key[1])), number


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip(" \"'") for name in dotted.split("."))


def _nodes(node: Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    if node is not None and node.tag == _MAPPING:
        for key, value in node.value:
            below = (*path, str(key.value))
            yield below, key.start_mark.line + 1
            yield from _nodes(value, below)
