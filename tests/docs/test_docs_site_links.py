"""Links between the files of the documentation lead somewhere, to the headings they name; a picture has its command."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from markdown_it.token import Token
from page_session import fences, pages
from pages import HOUSE

from sgframe_cli.group import main

NEIGHBOURS = sorted(
    path.relative_to(HOUSE).as_posix()
    for folder in ("benchmarks", "examples")
    for path in (HOUSE / folder).rglob("*.md")
)
PICTURES = sorted(
    path.relative_to(HOUSE).as_posix() for kind in ("svg", "png") for path in (HOUSE / "docs").rglob(f"*.{kind}")
)


@cache
def parsed(file: Path) -> Sequence[Token]:
    return MarkdownIt().enable("table").parse(file.read_text())


def links(page: str) -> Iterator[str]:
    for part in (child for token in parsed(HOUSE / page) for child in token.children or ()):
        target = part.attrGet("href") or part.attrGet("src")
        if isinstance(target, str) and not re.match(r"[a-z]+:", target):
            yield unquote(target)


def anchors(file: Path) -> set[str]:
    """Of the headings: their words in lower case, hyphens between them, and a number on what comes again."""
    tokens = parsed(file)
    headings = [after for token, after in pairwise(tokens) if token.type == "heading_open"]
    slugs = []
    for heading in headings:
        text = "".join(each.content for each in heading.children or () if each.type in ("text", "code_inline"))
        slugs.append(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    seen = Counter[str]()
    return {_numbered(slug, seen) for slug in slugs}


def _numbered(slug: str, seen: Counter[str]) -> str:
    seen[slug] += 1
    return slug if seen[slug] == 1 else f"{slug}-{seen[slug] - 1}"


@pytest.mark.parametrize("page", [*pages(), *NEIGHBOURS])
def test_every_link_leads_somewhere(page: str) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        file = (HOUSE / page).parent / target if target else HOUSE / page
        assert file.exists(), f"{link} is not there"
        assert not anchor or anchor in anchors(file), f"{link} names no heading; there are {sorted(anchors(file))}"


def test_headings_that_come_again_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# `a(b)` and c\n\n## Twice\n\n## Twice\n")
    assert anchors(tmp_path / "page.md") == {"ab-and-c", "twice", "twice-1"}


def test_there_are_pictures() -> None:
    assert "docs/grammar.svg" in PICTURES


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_is_on_a_page_that_has_the_command_which_makes_it(picture: str) -> None:
    shown = [page for page in pages() if any((HOUSE / page).parent / link == HOUSE / picture for link in links(page))]
    assert shown, "no page shows it"
    name = re.escape(Path(picture).name)
    command = re.compile(rf"(?:^ *|`)(?:sgframe|python) .*(?:-o|--svg|--plot) \S*{name}\b", re.MULTILINE)
    assert any(command.search((HOUSE / page).read_text()) for page in shown), f"no command on {shown} makes {picture}"


def test_the_picture_of_a_grammar_is_what_its_command_draws(tmp_path: Path) -> None:
    (command,) = (
        line for block in fences("docs/grammars.md") for line in block.text.splitlines() if "docs/grammar.svg" in line
    )
    drawn = tmp_path / "grammar.svg"
    words = [str(drawn) if word == "docs/grammar.svg" else word for word in shlex.split(command)[1:]]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert drawn.read_bytes() == (HOUSE / "docs/grammar.svg").read_bytes()
