"""What docs/testing-plugins.md shows is run, and what it lists is all there is."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import HOUSE, Block, blocks, environment, run, table, write_files

import sgframe.testing
from sgframe.testing import fixtures

PAGE = "docs/testing-plugins.md"
MODULES = [block for block in blocks(PAGE, "python") if block.first_line.startswith("# test_")]
LINES = [block for block in blocks(PAGE, "python") if block not in MODULES]
CONTRACTS = {name for name in sgframe.testing.__all__ if name.endswith("Contract")}


def words(header: str, column: int = 0) -> list[str]:
    return [row[column].strip("`") for row in table(PAGE, header)]


@pytest.mark.parametrize("block", LINES, ids=lambda block: block.first_line)
def test_lines_run_as_they_stand(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(block.text, {"__name__": "page"})


@pytest.mark.parametrize(
    "module",
    [pytest.param(each, marks=[pytest.mark.slow] * ("contracts" in each.first_line)) for each in MODULES],
    ids=lambda block: block.first_line,
)
def test_modules_pass_as_they_stand(module: Block, tmp_path: Path) -> None:
    write_files(tmp_path, module)
    name = module.first_line.removeprefix("# ")
    options = ("-p", "no:cacheprovider", "-o", "asyncio_mode=auto")
    told = run(sys.executable, "-m", "pytest", *options, name, folder=tmp_path, environ=environment())
    assert " passed" in told


def test_every_contract_is_subclassed_with_one_make() -> None:
    (module,) = (block for block in MODULES if "contracts" in block.first_line)
    names: dict[str, Any] = {"__name__": "page"}
    exec(module.text, names)
    subclasses = [kind for name, kind in names.items() if name.startswith("Test")]
    assert {kind.__bases__[0].__name__ for kind in subclasses} == CONTRACTS
    for kind in subclasses:
        assert kind.__bases__[0].__abstractmethods__ == {"make"}
        assert not inspect.isabstract(kind)


def test_what_a_subclass_may_say_stands_with_its_default() -> None:
    for contract, attribute, default, _ in table(PAGE, "| contract | attribute | default | what it says |"):
        value = getattr(getattr(sgframe.testing, contract.strip("`")), attribute.strip("`"))
        told = {"random_work": "50 examples", "model": "the first that is here"}
        if attribute.strip("`") in told:
            assert default == told[attribute.strip("`")]
        else:
            assert default == "`" + (f'"{value}"' if isinstance(value, str) else str(value)) + "`"
    assert sgframe.testing.CacheContract.random_work.max_examples == 50
    assert sgframe.testing.SourceContract.model == ""


def test_the_page_lists_all_that_can_be_imported() -> None:
    listed = {*words("| name | what it is |"), *words("| name | for | what it does |"), "check_plugin"}
    assert listed | CONTRACTS == set(sgframe.testing.__all__)


def test_the_page_lists_all_fixtures() -> None:
    there = {name for name, thing in vars(fixtures).items() if type(thing).__name__ == "FixtureFunctionDefinition"}
    assert set(words("| fixture | what it gives |")) == there


def test_the_mutants_are_where_the_page_says() -> None:
    found = {
        path.name.removeprefix("test_").removesuffix("_mutants.py") for path in HOUSE.glob("tests/*/test_*_mutants.py")
    }
    assert found == {name.removesuffix("Contract").lower() for name in CONTRACTS}
