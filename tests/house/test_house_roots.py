"""The source roots: named equally everywhere, typed, complete in the import contracts."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text())
TOOLS = PYPROJECT["tool"]
ROOTS = TOOLS["hatch"]["build"]["dev-mode-dirs"]
PACKAGES = sorted(file.parent for root in ROOTS for file in (HOUSE / root).glob("*/__init__.py"))


@pytest.mark.parametrize(
    "listed",
    [
        TOOLS["hatch"]["build"]["targets"]["wheel"]["sources"],
        TOOLS["pytest"]["ini_options"]["pythonpath"],
        TOOLS["mypy"]["mypy_path"].split(":"),
        TOOLS["pyright"]["extraPaths"],
        TOOLS["ruff"]["src"],
    ],
    ids=["wheel", "pytest", "mypy", "pyright", "ruff"],
)
def test_every_tool_knows_the_same_roots(listed: list[str]) -> None:
    assert listed == ROOTS


def test_every_root_is_there_and_every_device_has_one() -> None:
    assert sorted(root for root in ROOTS if root.startswith("backends/")) == sorted(
        f"backends/{folder.name}" for folder in (HOUSE / "backends").iterdir() if folder.is_dir()
    )
    assert all((HOUSE / root).is_dir() for root in ROOTS)


def test_every_import_package_is_named_for_what_it_is() -> None:
    assert [package.name for package in PACKAGES if package.name.split("_")[0] != "sgframe"] == []
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_import_package_is_typed(package: Path) -> None:
    assert (package / "py.typed").is_file()


def test_the_import_contracts_know_every_package() -> None:
    layers = " | ".join(TOOLS["importlinter"]["contracts"][0]["layers"]).split(" | ")
    names = sorted(package.name for package in PACKAGES)
    assert TOOLS["importlinter"]["root_packages"] == names
    assert sorted(layers) == names


def test_the_version_is_stated_once_for_pip_and_python() -> None:
    import sgframe

    assert PYPROJECT["project"]["version"] == sgframe.__version__


def test_every_dependency_is_pinned() -> None:
    def names(lines: list[str]) -> set[str]:
        words = (line.split("[")[0].split(">")[0].split("=")[0].strip() for line in lines)
        return {word.lower().replace("_", "-") for word in words if word and not word.startswith("#")}

    project = PYPROJECT["project"]
    wanted = names([*project["dependencies"], *project["optional-dependencies"]["test"]])
    assert wanted <= names((HOUSE / "constraints.txt").read_text().splitlines())
