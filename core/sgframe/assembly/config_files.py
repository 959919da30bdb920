"""Config files: TOML, YAML or JSON text to a mapping. Every error names the file, and the line where that is known."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sgframe.errors import ConfigError


def parse(file: Path) -> dict[str, Any]:
    """The mapping in ``file``, by its suffix. Raises ConfigError."""
    read = _READERS.get(file.suffix.lower())
    if read is None:
        raise ConfigError(f"{file}: the suffix '{file.suffix}' is not one of {', '.join(_READERS)}")
    try:
        content = read(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = f"{error.problem_mark.line + 1}: " if error.problem_mark else " "
        raise ConfigError(f"{file}:{line}{error.problem or error.context}") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{file}:{error.lineno}: {error.msg}") from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:  # TOML's errors, undecodable text
        raise ConfigError(f"{file}: {error}") from None
    if content is None:
        raise ConfigError(f"{file}: is empty; it must hold settings such as 'port'")
    if not isinstance(content, Mapping):
        raise ConfigError(f"{file}: must hold settings by name, found {type(content).__name__}")
    for key in content:
        if not isinstance(key, str):
            raise ConfigError(f"{file}: setting names are text, found {key!r}")
    return dict(content)


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = (key_node.tag, str(key_node.value))
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{key_node.value}' is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _read_yaml(text: str) -> Any:
    return yaml.load(text, _Loader)


def _read_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once) if text.strip() else None


def _read_toml(text: str) -> Any:
    return tomllib.loads(text) if text.strip() else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"'{key}' is given twice")
    return dict(pairs)


_READERS: Mapping[str, Callable[[str], Any]] = {
    ".toml": _read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
    ".json": _read_json,
}
