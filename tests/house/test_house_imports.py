"""Who may import what, beyond the contracts between packages: pluggy stays in assembly, core and hook modules stay light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgframe.assembly.plugins import BUILTIN

HOUSE = Path(__file__).parents[2]
ROOTS = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["dev-mode-dirs"]
CORE = HOUSE / "core" / "sgframe"


def imported(file: Path) -> Iterator[str]:
    """Every module that ``file`` names in an import statement, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def packages_in(file: Path) -> set[str]:
    return {module.partition(".")[0] for module in imported(file)}


def test_pluggy_is_met_in_assembly_and_testing_only() -> None:
    files = [file for root in ROOTS for file in (HOUSE / root).rglob("*.py") if "pluggy" in packages_in(file)]
    folders = {file.relative_to(HOUSE).parent.as_posix() for file in files}
    assert folders <= {"core/sgframe/assembly", "core/sgframe/testing"}


def imported_at_once(file: Path) -> Iterator[str]:
    """What ``file`` imports when it is imported itself: not what its functions do, nor what types alone need."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("module", BUILTIN.values())
def test_a_hook_module_imports_sgframe_and_pydantic_only(module: str) -> None:
    (file,) = (path for root in ROOTS for path in (HOUSE / root).glob(f"{module}/__init__.py"))
    allowed = {"sgframe", "pydantic", *sys.stdlib_module_names}
    at_once = {name.partition(".")[0] for name in imported_at_once(file)}
    assert at_once <= allowed
    assert packages_in(file) <= {*allowed, module, "click"}, "a command's own code is imported by the hook that adds it"
    assert {name for name in imported(file) if name.startswith("sgframe.")} == set()


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda file: str(file.relative_to(CORE)))
def test_core_names_no_device_library_and_no_part(file: Path) -> None:
    found = packages_in(file)
    assert found & {"torch", "transformers", "zmq", "fastapi", "starlette", "uvicorn"} == set()
    assert {name for name in found if name.startswith("sgframe_")} == set()


def test_all_of_core_can_be_imported_without_a_device_library() -> None:
    modules = sorted(
        ".".join(file.relative_to(HOUSE / "core").with_suffix("").parts).removesuffix(".__init__")
        for file in CORE.rglob("*.py")
        if "testing" not in file.parts
    )
    code = (
        "import sys\nfrom importlib import import_module\n"
        f"for module in {modules!r}: import_module(module)\n"
        "print(*({'torch', 'transformers', 'zmq', 'fastapi'} & sys.modules.keys()))"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert run.stdout == "\n"
