"""Config files: TOML, YAML or JSON text to a mapping. Every error names the file, and the line where that is known."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sgframe.assembly.text_fault import TextFault
from sgframe.errors import ConfigError

MOST_BYTES = 256 * 1024
"""The largest config file."""

_TOML_PLACE = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column \d+\)", re.DOTALL)


def parse(file: Path) -> dict[str, Any]:
    """The mapping in ``file``, by its suffix. Raises ConfigError."""
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise ConfigError(f"{file}: the suffix '{file.suffix}' is not one of {', '.join(_READERS)}")
    try:
        content = read(_text(file))
    except TextFault as fault:
        raise ConfigError(fault.at(file)) from None
    except ValueError as error:  # numbers and dates that no value can hold
        raise ConfigError(f"{file}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{file}: is nested too deeply to be a config file") from None
    if content is None or content == {}:
        raise ConfigError(f"{file}: is empty; it must hold settings such as 'port'")
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: must hold settings by name, found {type(content).__name__}")
    return content


def _text(file: Path) -> str:
    try:
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file}: is {'a folder' if file.is_dir() else 'no regular file'}; name a file")
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise TextFault(f"is larger than {MOST_BYTES // 1024} KiB; is this the config file?")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TextFault(f"is not UTF-8 text ({error.reason}); save it as UTF-8", line) from None


def _read_yaml(text: str) -> Any:
    from sgframe.assembly.yaml_files import read_yaml  # noqa: PLC0415 - slow, and needed by few commands

    return read_yaml(text)


def _read_toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error).replace("Cannot overwrite a value", "a name is given twice")
        place = _TOML_PLACE.fullmatch(problem)
        raise (TextFault(place["what"], int(place["line"])) if place else TextFault(problem)) from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once) if text.strip() else None
    except json.JSONDecodeError as error:
        raise TextFault(error.msg, error.lineno) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise TextFault(f"'{key}' is given twice")
        table[key] = value
    return table


_READERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": _read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
}
