"""YAML for config files: what different readers of YAML take for different values is refused, with its line.

YAML 1.1, by which most people's files are read, takes ``no`` for false, ``1:30`` for 90, ``010`` for 8 and ``1e3`` for text;
YAML 1.2 does not (https://yaml.org/spec/1.2.2/#10.3, core schema). Knows nothing of settings.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import Any, NoReturn

import yaml

from sgframe.assembly.text_fault import TextFault

MOST_VALUES = 10_000
"""Values in a file, each alias counted as all that it stands for."""

_MERGE = "tag:yaml.org,2002:merge"
_NAMES = ("tag:yaml.org,2002:str", _MERGE)
_ODD_NUMBER = re.compile(r".*[:_].*|[-+]?0[0-7]+|[-+]?0b.*|[-+]0x.*")
_NEW_NUMBER = re.compile(r"0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""A number by the core schema of YAML 1.2, where YAML 1.1 may see text."""
_ADVICE = {
    "but found another document": "holds more than one document: drop what follows '---'",
    "found character '\\t' that cannot start any token": "is indented by a tab: use spaces",
}
"""What the library says of frequent mistakes, in words that help."""


def read_yaml(text: str) -> Any:
    """The value of the only document in ``text``, None if there is none. Raises TextFault."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        problem, mark = error.problem or "is no YAML", error.problem_mark
        raise TextFault(_ADVICE.get(problem, problem), mark.line + 1 if mark else 0) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TextFault(f"holds the character {error.character:#06x}: is this a text?", line) from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses values that do not fit their tag, and values that not everybody reads alike."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:  # such as a date that is in no calendar
            raise _fault(node, str(error)) from None
        except (KeyError, AttributeError):  # the library looks up what the tag promises and does not find it
            raise _fault(node, f"{_shown(node)} is no {node.tag.rpartition(':')[2]}, as its tag says") from None

    def construct_text(self, node: yaml.ScalarNode) -> str:
        text = str(self.construct_yaml_str(node))
        return text if node.style or not _NEW_NUMBER.fullmatch(text) else _refuse(node, _new_number(text))

    def construct_bool(self, node: yaml.ScalarNode) -> bool:
        value = bool(self.construct_yaml_bool(node))
        return value if node.value.lower() in ("true", "false") else _refuse(node, str(value).lower())

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        is_integer = node.tag.endswith(":int")
        value = self.construct_yaml_int(node) if is_integer else self.construct_yaml_float(node)
        return _refuse(node, value) if _ODD_NUMBER.fullmatch(node.value) else value


_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.construct_text)
_Loader.add_constructor("tag:yaml.org,2002:bool", _Loader.construct_bool)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)


def _new_number(text: str) -> int | float:
    if text.startswith("0o"):
        return int(text, 8)
    value = float(text)
    return int(value) if value.is_integer() else value


def _refuse(node: yaml.ScalarNode, value: object) -> NoReturn:
    raise _fault(
        node, f"'{node.value}' is {value} to some readers of YAML only: write {value}, or '{node.value}' in quotes"
    )


def _count(node: yaml.Node, counted: dict[yaml.Node, int]) -> int:
    """How many values ``node`` stands for. Raises for too many, for what contains itself, and for unfit names in it."""
    if node in counted:
        if not counted[node]:
            raise _fault(node, "contains itself")
        return counted[node]
    counted[node] = 0
    if isinstance(node, yaml.MappingNode):
        _check_names(node)
    parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
    below = 0 if isinstance(node, yaml.ScalarNode) else sum(_count(part, counted) for part in parts)
    counted[node] = 1 + below
    if counted[node] > MOST_VALUES:
        raise _fault(node, f"stands for more than {MOST_VALUES} values, aliases counted: is this a config file?")
    return counted[node]


def _check_names(table: yaml.MappingNode) -> None:
    """Raises for a name that is no text or is given twice, in the table itself or by the tables that it merges.

    Which one of several merged tables wins is up to the reader, too.
    """
    seen: set[str] = set()
    for key, value in table.value:
        if key.tag not in _NAMES:
            raise _fault(key, f"names are text, and {_shown(key)} is not: put it in quotes")
        if key.value in seen:
            raise _fault(key, f"'{key.value}' is given twice")
        seen.add(key.value)
        if key.tag == _MERGE and isinstance(value, yaml.SequenceNode):
            merged = [part for part in dict.fromkeys(value.value) if isinstance(part, yaml.MappingNode)]
            names = Counter(name.value for part in merged for name, _ in part.value)
            if twice := [name for name, times in names.items() if times > 1]:
                raise _fault(key, f"'{twice[0]}' is in more than one of the tables that are merged: drop all but one")


def _shown(node: yaml.Node) -> str:
    return f"'{node.value}'" if isinstance(node, yaml.ScalarNode) else "a list or table"


def _fault(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
