"""What others build on, line by line, and the rule by which it may change (docs/plugins.md, "Versions").

``python tests/support/public_surface.py`` says what has changed since the last release and what that asks for; with
``--write`` it takes down the surface of a release in tests/house/public_surface.txt.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import BaseModel

import sgframe
import sgframe.testing
from sgframe.assembly.plugins import BUILTIN, Plugin, load_plugins
from sgframe.assembly.providers import API_VERSION
from sgframe.assembly.settings import KEYS, Settings, ShadowSettings
from sgframe_cli.group import main as sgframe_command

HOUSE = Path(__file__).parents[2]
CORE = HOUSE / "core" / "sgframe"
SNAPSHOT = HOUSE / "tests" / "house" / "public_surface.txt"
CHANGELOG = HOUSE / "CHANGELOG.md"

CONTRACTS: Mapping[str, tuple[str, ...]] = {
    "assembly/providers": ("Seam", "PluginSettings", "Provider"),
    "constraints": ("Whitespace", "Constraint", "Tool", "ToolConstraint"),
    "errors": (),
    **{f"interfaces/{file.stem}": () for file in sorted((CORE / "interfaces").glob("[a-z]*.py"))},
    "messages/shared": (),
    "messages/wire": ("Message", "ints"),
    "messages/worker": (),
    "sampling": ("TokenSampling",),
}
"""What plugins implement, are given, give and raise: modules of core, and the names in them; if none, all public ones."""

PLUGIN_SECTIONS = ("hooks", "contracts")
"""What plugins are built against: here a removal or a change raises API_VERSION."""

OF_SETTINGS = {"config", "plugin", "set_", "shadow"}
"""The options that come with those of the settings."""

_KEY = re.compile(r"[\w.-]+(?: [\w-]+)*")
_HEAD = """\
# What others build on, as it was at the last release. Not to be edited: docs/plugins.md, "Versions", says how it changes.
# python tests/support/public_surface.py --write
"""


@dataclass(frozen=True, slots=True)
class Surface:
    """``lines[section][key]`` is the whole line; the key is what it is a line about."""

    api: int
    lines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Surface:
        """The surface that ``str`` wrote."""
        head, *sections = re.split(r"^\[(.*)\]$", text, flags=re.MULTILINE)
        found = {name: _by_key(body.split("\n")) for name, body in zip(sections[::2], sections[1::2], strict=True)}
        return cls(int(head.split()[-1]), found)

    def __str__(self) -> str:
        sections = ["\n".join([f"[{name}]", *lines.values()]) for name, lines in self.lines.items()]
        return "\n\n".join([f"{_HEAD}plugin API {self.api}", *sections]) + "\n"


def _by_key(lines: list[str]) -> dict[str, str]:
    return {_key(line): line for line in lines if line}


def _key(line: str) -> str:
    found = _KEY.match(line)
    assert found, line
    return found[0]


# ------------------------------------------------------------------------------------------------ what there is


def surface() -> Surface:
    """As it is now."""
    sections = {
        "hooks": [_signature("", node) for node in _tree("assembly/hookspecs") if isinstance(node, ast.FunctionDef)],
        "contracts": [line for module, names in CONTRACTS.items() for line in _chosen(module, names)],
        "exports": [f"sgframe.{name}" for name in sorted(sgframe.__all__)],
        "testing": [f"sgframe.testing.{name}" for name in sorted(sgframe.testing.__all__)],
        "settings": [*_fields("", Settings), *_fields("shadow.", ShadowSettings)],
        "parts": list(_parts()),
        "commands": list(_commands("sgframe", sgframe_command)),
    }
    for module, name in (("front/engine", "Engine"), ("sampling", "SamplingParams")):
        sections["exports"] += [f"sgframe.{line.removeprefix(_dotted(module))}" for line in _chosen(module, (name,))][
            1:
        ]
    return Surface(API_VERSION, {name: _by_key(lines) for name, lines in sections.items()})


def _tree(module: str) -> list[ast.stmt]:
    return ast.parse((CORE / f"{module}.py").read_text()).body


def _dotted(module: str) -> str:
    return f"sgframe.{module.replace('/', '.')}."


def _chosen(module: str, names: tuple[str, ...]) -> Iterator[str]:
    prefix = _dotted(module)
    for line in _members(prefix, _tree(module)):
        if not names or _key(line).removeprefix(prefix).partition(".")[0] in names:
            yield line


def _members(prefix: str, body: list[ast.stmt]) -> Iterator[str]:
    """A line for each public name that ``body``, a module's or a class's, defines, and for those in its classes."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) if not name.startswith("_"):
                yield f"{prefix}{name}({', '.join(map(ast.unparse, node.bases))})"
                yield from _members(f"{prefix}{name}.", node.body)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if _is_public(name):
                yield _signature(prefix, node)
            case ast.AnnAssign(target=ast.Name(id=name)) if _is_public(name):
                default = f" = {ast.unparse(node.value)}" if node.value else ""
                yield f"{prefix}{name}: {ast.unparse(node.annotation)}{default}"
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_public(name):
                yield f"{prefix}{name} = {ast.unparse(node.value)}"


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def _signature(prefix: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """``name(arguments) -> result``, and in brackets what a caller or implementer has to know besides."""
    marks = [ast.unparse(each) for each in node.decorator_list]
    marks = [mark for mark in marks if mark in ("abstractmethod", "property", "classmethod", "staticmethod")]
    if any("warn_on_impl" in ast.unparse(each) for each in node.decorator_list):
        marks.append("deprecated")
    if isinstance(node, ast.AsyncFunctionDef):
        marks.append("async")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{prefix}{node.name}({ast.unparse(node.args)}){returns}" + (f" [{', '.join(marks)}]" if marks else "")


def _fields(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    for key, info in model.model_fields.items():
        kind = info.annotation.__name__ if isinstance(info.annotation, type) else str(info.annotation)
        default = "" if info.is_required() else f" = {info.get_default(call_default_factory=True)!r}"
        yield f"{prefix}{key}: {kind.replace('typing.', '')}{default}"


def _parts() -> Iterator[str]:
    """The built-in ones with their settings; a table that two parts share comes once."""
    offers = load_plugins(plugins=[Plugin(name, module) for name, module in BUILTIN.items()]).offers()
    tables = {offer.provider.settings: offer.name for offer in offers}
    yield from (f"{offer.seam.value} {offer.name}" for offer in offers)
    for model, name in tables.items():
        yield from _fields(f"plugin.{name}.", model)


def _commands(path: str, command: click.Command) -> Iterator[str]:
    """Each command with its arguments and options; ``[settings]`` for one that has an option for every setting."""
    params = {each.name: each for each in command.params}
    if params.keys() >= OF_SETTINGS:
        params = {name: each for name, each in params.items() if name not in KEYS | OF_SETTINGS}
    context = click.Context(command)
    arguments = [f" <{each.make_metavar(context)}>" for each in params.values() if isinstance(each, click.Argument)]
    yield path + "".join(arguments) + " [settings]" * (len(params) < len(command.params))
    for option in params.values():
        if isinstance(option, click.Option):
            takes = "" if option.is_flag else f" <{option.type.name}>"
            yield f"{path} {option.opts[0]}{takes}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found, name
            yield from _commands(f"{path} {name}", found)


# ------------------------------------------------------------------------------------------------ how it may change


_PREFIXES = (*map(_dotted, CONTRACTS), "sgframe.testing.", "sgframe.")


class Change(NamedTuple):
    """``before`` is empty for what is new, ``after`` for what is gone."""

    section: str
    key: str
    before: str
    after: str

    @property
    def parent(self) -> str:
        """The class of a method, the command of an option."""
        found = re.match(r"(.*)[. ]", self.key)
        return found[1] if found else ""

    @property
    def name(self) -> str:
        """What CHANGELOG.md calls it: ``Cache.peek``, ``port``, ``sgframe plugins --json``."""
        prefix = next((prefix for prefix in _PREFIXES if self.key.startswith(prefix)), "")
        return self.key.removeprefix(prefix)

    def __str__(self) -> str:
        return "\n".join(f"  {sign} {line}" for sign, line in (("-", self.before), ("+", self.after)) if line)


def changes(old: Surface, new: Surface) -> list[Change]:
    found = []
    for section in new.lines.keys() | old.lines.keys():
        before, after = old.lines.get(section, {}), new.lines.get(section, {})
        each = (Change(section, key, before.get(key, ""), after.get(key, "")) for key in {**before, **after})
        found += [change for change in each if change.before != change.after]
    return sorted(found)


def problems(old: Surface, new: Surface, changelog: str) -> list[str]:
    """What the rule still asks for, given the surface of the last release, that of now, and CHANGELOG.md."""
    news = re.split(r"^## ", changelog, flags=re.MULTILINE)[1]
    found = changes(old, new)
    wanted = [_mention(change, found, news) for change in found]
    wanted += [_default(change, old) for change in found] + [_farewell(change) for change in found]
    broken = [change for change in found if change.section in PLUGIN_SECTIONS and change.before]
    if broken and new.api == old.api:
        wanted.append(
            f"{broken[0]}\n  Plugins were built against this: raise API_VERSION in core/sgframe/assembly/providers.py to "
            f"{old.api + 1}, and see that plugins of API {old.api} still work"
        )
    if new.api not in (old.api, old.api + 1):
        wanted.append(f"API_VERSION is {new.api}, but was {old.api} at the last release: raise it by one")
    if f"plugin API {new.api}" not in news:
        wanted.append(f"CHANGELOG.md: the top section must say 'plugin API {new.api}'")
    return [each for each in wanted if each]


def _mention(change: Change, found: list[Change], news: str) -> str:
    whole = any(change.parent == other.key and not (other.before and other.after) for other in found)
    if whole or re.search(rf"`[^`]*(?<![\w-]){re.escape(change.name)}(?![\w-])[^`]*`", news):
        return ""
    return f"{change}\n  Say so in the top section of CHANGELOG.md, with `{change.name}` in it"


def _default(change: Change, old: Surface) -> str:
    """What plugins implement or make must not get a part that they cannot lack."""
    owner = old.lines.get(change.section, {}).get(change.parent, "")
    if change.section != "contracts" or not owner:
        return ""
    if ")" not in change.after:
        lacking = not change.before and " = " not in change.after
    elif "Protocol" in owner:
        lacking = not change.before and "property" not in change.after
    else:
        lacking = "abstractmethod" in change.after and "abstractmethod" not in change.before
    if lacking:
        return f"{change}\n  Parts that were built before lack it: give it a default that keeps the old behaviour"
    return ""


def _farewell(change: Change) -> str:
    if change.section != "hooks" or change.after or "deprecated" in change.before:
        return ""
    return (
        f"{change}\n  Plugins of the last API implement it: keep it, with hookspec(warn_on_impl=DeprecationWarning(...)), "
        "until API_VERSION is raised once more"
    )


def main(*words: str) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", action="store_true", help="take the surface down, unless the rule still asks for something"
    )
    write = parser.parse_args(words).write
    new = surface()
    old = Surface.parse(SNAPSHOT.read_text()) if SNAPSHOT.exists() else new
    print("\n".join(map(str, changes(old, new))) or "Nothing has changed since the last release.")
    if due := problems(old, new, CHANGELOG.read_text()):
        print("\nThe rule asks for this:", *due, sep="\n")
        return 1
    if write:
        SNAPSHOT.write_text(str(new))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
