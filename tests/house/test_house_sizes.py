"""No file and no function outgrows a reader; every module says what it owns."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
ROOTS = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["dev-mode-dirs"]
MODULES = sorted(file for root in ROOTS for file in (HOUSE / root).rglob("*.py"))
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

each_module = pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(HOUSE)))


@each_module
def test_a_module_is_short_and_opens_with_its_purpose(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= MAX_FILE_LINES
    assert ast.get_docstring(ast.parse(text)), "begin with a docstring: what the module owns, what it must not know"


@each_module
def test_a_function_fits_a_screen(file: Path) -> None:
    functions = (
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    too_long = [node.name for node in functions if node.end_lineno - node.lineno >= MAX_FUNCTION_LINES]
    assert too_long == []


def test_nothing_is_called_utils() -> None:
    assert [file for file in MODULES if file.stem in {"utils", "util", "helpers", "misc", "common"}] == []
