"""Every seam has a hook, every hook a test, and hooks are called at the start alone."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgframe.assembly import hookspecs
from sgframe.assembly.hooks import COMMANDS, HOOKS
from sgframe.assembly.providers import Seam

HOUSE = Path(__file__).parents[2]
ROOTS = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["dev-mode-dirs"]
TEXTS = {file: file.read_text() for root in ROOTS for file in (HOUSE / root).rglob("*.py")}
TREES = {
    file.relative_to(HOUSE).as_posix(): ast.parse(text)
    for file, text in TEXTS.items()
    if ".hook" in text or "sgframe.assembly" in text
}
"""All in which a hook could be called."""
ASKING = {f"sgframe.assembly.{name}" for name in ("assemble", "choosing", "devices", "discovery", "hooks", "plugins")}
"""Modules that call hooks, or whatever calls them."""
NAMES = sorted(name for name in vars(hookspecs) if name.startswith("sgframe_"))


def test_every_seam_has_a_hook_and_every_hook_a_seam_but_commands() -> None:
    assert set(HOOKS.values()) == set(Seam)
    assert sorted([*HOOKS, COMMANDS]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_is_named_by_a_test(name: str) -> None:
    assert any(name in file.read_text() for file in (HOUSE / "tests" / "assembly").glob("test_*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules, and what is imported from them, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))


def test_hooks_are_called_in_assembly_only() -> None:
    """A call is written ``manager.hook.sgframe_caches()``."""
    callers = {
        file
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "hook"
    }
    assert callers == {"core/sgframe/assembly/hooks.py", "core/sgframe/assembly/plugins.py"}


def test_what_runs_after_the_start_cannot_ask_the_plugins() -> None:
    """Nothing in core but ``Engine``, no part, and no frontend but those that start something."""
    askers = {file for file, tree in TREES.items() if ASKING & set(imported(tree))}
    starting = ("core/sgframe/assembly/", "core/sgframe/testing/", "frontends/sgframe_cli/")
    assert {file for file in askers if not file.startswith(starting)} == {
        "core/sgframe/front/engine.py",
        "frontends/sgframe_simulator/parts.py",
    }


def test_an_engine_asks_the_plugins_when_it_is_made() -> None:
    functions = [node for node in ast.walk(TREES["core/sgframe/front/engine.py"]) if isinstance(node, ast.FunctionDef)]
    calling = [
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "assemble"
    ]
    assert calling == ["__init__"]
