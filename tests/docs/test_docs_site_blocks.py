"""Every block of code on every page has a test that runs it, and is right as far as it can be told without running it."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from page_session import fences, pages
from pages import HOUSE, Block

from sgframe_cli.group import main

RUN = ("sh", "python", "toml", "yaml", "json")
"""Words after a fence that stand for something to run or to write. ``text`` and none are what is printed, or a drawing."""

FOLLOWED = "tests/docs/test_docs_site_followed.py"
RUNNERS: Mapping[str, tuple[str, ...]] = {
    "README.md": ("tests/docs/test_readme.py", "tests/docs/test_grammars_served.py"),
    "docs/backends.md": ("tests/docs/test_backends_page.py",),
    "docs/caches.md": ("tests/docs/test_readme.py",),
    "docs/deployment.md": ("tests/deploy/test_deploy_page.py",),
    "docs/grammars.md": ("tests/docs/test_readme.py", "tests/docs/test_grammars_served.py"),
    "docs/many-machines.md": ("tests/launcher/test_many_machines_page.py",),
    "docs/observing.md": ("tests/docs/test_docs_site_observing.py",),
    "docs/plugins.md": ("tests/docs/test_readme.py", "tests/docs/test_plugins_page.py"),
    "docs/policies.md": ("tests/docs/test_readme.py",),
    "docs/programs.md": ("tests/docs/test_programs_page.py",),
    "docs/quantization.md": ("tests/docs/test_docs_site_blocks.py",),
    "docs/simulator.md": ("tests/simulator/test_simulator_page.py",),
    "docs/speculation.md": ("tests/speculation/test_speculation_page.py",),
    "docs/tensor-parallel.md": ("tests/docs/test_docs_site_blocks.py",),
    "docs/testing-plugins.md": ("tests/docs/test_testing_plugins_page.py",),
    "docs/tutorial-plugin.md": ("tests/packages/test_tutorial.py",),
    "docs/tutorial.md": (FOLLOWED,),
}
"""The tests that run what a page shows; the pages of docs/how-to are all followed."""

CHECKED = ("docs/quantization.md", "docs/tensor-parallel.md")
"""Pages whose servers need another device, or other machines, or a model of yours: their settings are checked instead."""

Located = tuple[str, Block]
BLOCKS: list[Located] = [(page, block) for page in pages() for block in fences(page)]


def of_language(language: str) -> list[object]:
    found = [located for located in BLOCKS if located[1].language == language]
    return [pytest.param(*located, id=f"{located[0]}: {located[1].first_line[:40]}") for located in found]


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command of sgframe's, as far as they are its own."""
    text = "".join(block.text for block in fences(page) if block.language == "sh").replace("\\\n", "")
    for line in re.findall(r"^(?:\.venv/bin/)?(sgframe .*)$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)
        ends = [place for place, word in enumerate(words) if word in ("|", "&", ">", "2>&1")]
        yield words[1 : min(ends, default=None)]


def test_every_page_with_something_to_run_has_its_tests() -> None:
    running = {page for page, block in BLOCKS if block.language in RUN and not page.startswith("docs/how-to/")}
    assert running == set(RUNNERS)


@pytest.mark.parametrize(("page", "runners"), RUNNERS.items())
def test_the_tests_of_a_page_are_about_it(page: str, runners: tuple[str, ...]) -> None:
    for runner in runners:
        assert f'{Path(page).name}"' in (HOUSE / runner).read_text(), f"{runner} does not read {page}"


def test_the_words_after_fences_are_those_that_are_understood() -> None:
    assert {block.language for _, block in BLOCKS} <= {*RUN, "text", ""}


@pytest.mark.parametrize(("page", "block"), of_language("python"))
def test_python_is_python(page: str, block: Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize(("page", "block"), of_language("toml"))
def test_toml_is_toml(page: str, block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize(("page", "block"), of_language("yaml"))
def test_yaml_is_yaml(page: str, block: Block) -> None:
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize(("page", "block"), of_language("json"))
def test_json_is_json(page: str, block: Block) -> None:
    assert json.loads(block.text)


def test_shell_is_shell() -> None:
    script = "\n".join(block.text for _, block in BLOCKS if block.language == "sh")
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).stderr == ""


def parse(words: list[str]) -> None:
    """Find the subcommand that ``words`` name, and have click read its options; nothing is called."""
    command: click.Command = main
    context = click.Context(main, info_name="sgframe")
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found, f"there is no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    command.make_context(name, words, parent=context)


@pytest.mark.parametrize("page", sorted({page for page, block in BLOCKS if block.language == "sh"}))
def test_every_command_has_the_options_that_it_is_given(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, context: value)  # files are the reader's
    for words in commands(page):
        parse(words)


def serving(page: str) -> list[list[str]]:
    return [words[1:] for words in commands(page) if words[0] == "serve"]


@pytest.mark.parametrize(
    ("page", "words"), [pytest.param(page, words, id=" ".join(words)) for page in CHECKED for words in serving(page)]
)
def test_a_server_could_be_made_of_these_settings(page: str, words: list[str]) -> None:
    result = CliRunner().invoke(main, ["config", "check", *words])
    assert result.exit_code == 0, result.output


def test_scripts_that_pages_name_are_there() -> None:
    named = {
        (page, script)
        for page in pages()
        for script in re.findall(r"python ((?:benchmarks|tests|examples)/[\w/.-]+\.py)", (HOUSE / page).read_text())
    }
    assert named
    assert [(page, script) for page, script in named if not (HOUSE / script).exists()] == []
