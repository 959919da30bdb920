"""The site is made without a warning and without a network, and what it lists is all there is: settings, commands, names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from page_session import pages
from pages import HOUSE, environment, run
from pydantic import BaseModel

import sgframe
import sgframe.testing
import sgframe_dsl
from sgframe.assembly.plugins import BUILTIN, Plugin, load_plugins
from sgframe.assembly.settings import Settings, ShadowSettings
from sgframe_cli.group import SUBCOMMANDS

MODULES = sorted(f"sgframe.interfaces.{file.stem}" for file in (HOUSE / "core/sgframe/interfaces").glob("[a-z]*.py"))
EXPORTING = (sgframe, sgframe.testing, sgframe_dsl)


def setting_names() -> Iterator[str]:
    """Dotted, of the server and of every built-in part."""
    offers = load_plugins(plugins=[Plugin(name, module) for name, module in BUILTIN.items()]).offers()
    tables: list[tuple[str, type[BaseModel]]] = [("", Settings), ("shadow.", ShadowSettings)]
    tables += [(f"plugin.{offer.name}.", offer.provider.settings) for offer in offers]
    for prefix, model in tables:
        yield from (f"{prefix}{key}" for key in model.model_fields)


@pytest.fixture(scope="module")
def settings_reference() -> Iterator[ModuleType]:
    """The module of the site that writes down all settings."""
    sys.path.append(str(HOUSE / "docs/extensions"))
    yield import_module("settings_reference")
    sys.path.remove(str(HOUSE / "docs/extensions"))


def test_every_setting_is_in_the_reference(settings_reference: ModuleType) -> None:
    text = "\n".join(settings_reference.reference(settings_reference.built_in()))
    assert sorted(re.findall(r"^```\{confval\} (\S+)$", text, re.MULTILINE)) == sorted(set(setting_names()))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "whole number, at least 1, at most 9"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, more than 0"),
        ({"type": "string", "enum": ["a", "b"]}, "one of `a`, `b`"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or unset"),
        ({"type": ["string", "integer"]}, "text or whole number"),
        ({"$ref": "#/$defs/Other"}, "table"),
        ({"type": "array", "items": {"type": "string"}}, "list"),
    ],
)
def test_the_values_of_a_setting_are_told_in_words(
    settings_reference: ModuleType, schema: Mapping[str, object], words: str
) -> None:
    assert settings_reference.kind(schema) == words


def test_every_contract_is_in_the_reference() -> None:
    listed = re.findall(
        r"^\.\. automodule:: (\S+)$", (HOUSE / "docs/reference/interfaces.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == MODULES


def test_every_page_has_its_place_in_the_navigation() -> None:
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", (HOUSE / "docs/index.md").read_text(), re.MULTILINE | re.DOTALL)
    placed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    there = [page.removeprefix("docs/").removesuffix(".md") for page in pages() if page.startswith("docs/")]
    assert sorted(["index", *placed]) == sorted(there)


# -------------------------------------------------------------------------------------------------- the site itself


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as ``make docs`` does, where a warning is an error; every connection would fail."""
    folder = tmp_path_factory.mktemp("site")
    command = next(line for line in (HOUSE / "Makefile").read_text().splitlines() if "-m sphinx" in line).split()
    words = [str(folder) if word == "build/docs" else word for word in command[1:]]
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    run(sys.executable, *words, folder=HOUSE, environ=environment() | nowhere)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_page_is_made(site: Path) -> None:
    made = {page.relative_to(site).as_posix().removesuffix(".html") for page in site.rglob("*.html")}
    assert {page.removeprefix("docs/").removesuffix(".md") for page in pages() if page.startswith("docs/")} <= made


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_of_the_site_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r"""(?:src=|url\(|@import\s*|<link[^>]+href=)["']?(?:https?:)?//[^"')\s>]+""")
    files = [file for kind in ("html", "css") for file in site.rglob(f"*.{kind}")]
    found = [(file.name, match) for file in files for match in fetched.findall(file.read_text())]
    assert found == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_setting_is_on_its_page_with_an_anchor(site: Path) -> None:
    page = (site / "reference/settings.html").read_text()
    ids = set(re.findall(r'id="confval-([^"]+)"', page))
    assert len(ids) == len(set(setting_names()))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_is_on_its_page(site: Path) -> None:
    page = (site / "reference/command-line.html").read_text()
    assert [name for name in SUBCOMMANDS if f'id="sgframe-{name}"' not in page] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("module", EXPORTING, ids=lambda module: module.__name__)
def test_every_exported_name_is_on_a_page_of_the_reference(site: Path, module: ModuleType) -> None:
    ids = {
        found
        for page in (site / "reference").glob("*.html")
        for found in re.findall(r'id="([\w.]+)"', page.read_text())
    }
    names = [f"{module.__name__}.{name}" for name in module.__all__ if not name.startswith("__")]
    assert [name for name in names if name not in ids] == []
