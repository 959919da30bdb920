"""The tutorial and the pages on how to write a part, followed to the letter by somebody who has just installed sgframe."""

from __future__ import annotations

import re
import socket
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_venv import FreshVenv, build_wheel, lend_packages
from page_session import compare, fences, session, untyped, write
from pages import FIRST_USE, HOUSE, Block

from sgframe.assembly.plugins import Plugin, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.testing.plugin import check_plugin

TUTORIAL = "docs/tutorial.md"
HOW_TOS = {seam: f"docs/how-to/{seam.value}.md" for seam in Seam}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> FreshVenv:
    """An environment with sgframe in it, for all pages."""
    folder = tmp_path_factory.mktemp("installed")
    lend_packages(folder / "packages")
    fresh = FreshVenv(folder / "venv", folder / "packages")
    fresh.shell(f"pip install --no-compile {build_wheel(HOUSE, folder)}", folder)
    return fresh


@pytest.fixture
def port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Block]]:
    """The blocks of a page, whose package can be imported."""
    before = set(sys.modules)
    blocks = fences(request.param)
    write(tmp_path, blocks)
    monkeypatch.syspath_prepend(tmp_path)
    yield blocks
    for module in set(sys.modules) - before:
        del sys.modules[module]


@pytest.mark.parametrize("page", [TUTORIAL, *HOW_TOS.values()])
def test_all_that_a_page_shows_is_typed_or_printed(page: str) -> None:
    assert untyped(fences(page)) == []


@pytest.mark.parametrize(("seam", "package"), HOW_TOS.items(), ids=str, indirect=["package"])
def test_the_part_of_a_page_is_sound_and_of_its_seam(seam: Seam, package: list[Block]) -> None:
    project = next(block.text for block in package if block.first_line == "# pyproject.toml")
    ((name, module),) = tomllib.loads(project)["project"]["entry-points"]["sgframe"].items()
    assert check_plugin(module) == []
    assert [offer.name for offer in load_plugins(plugins=[Plugin(name, module)]).offers(seam)] == [name]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", HOW_TOS.values())
def test_the_part_of_a_page_passes_its_tests_and_works(
    page: str, installed: FreshVenv, port: int, tmp_path: Path
) -> None:
    blocks = fences(page)
    printed = installed.shell(session(blocks, port), tmp_path, REPOSITORY=str(HOUSE))
    compare(blocks, printed, port)
    assert re.search(r"\d+ passed", printed)


@pytest.mark.slow
@pytest.mark.timeout(2 * FIRST_USE)
def test_the_tutorial_does_what_it_says(installed: FreshVenv, port: int, tmp_path: Path) -> None:
    blocks = fences(TUTORIAL)
    compare(blocks, installed.shell(session(blocks, port), tmp_path, SGFRAME_PORT=str(port)), port)
