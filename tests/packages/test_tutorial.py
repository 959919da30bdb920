"""docs/tutorial-plugin.md, followed to the letter by somebody who has just installed sgframe."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_venv import FreshVenv
from pages import Block, blocks

PAGE = "docs/tutorial-plugin.md"
FIVE_MINUTES = 300.0
MARK = "-- end of block --"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def session(page: list[Block]) -> Iterator[str]:
    """What the reader types: commands as they stand, and files whose names their first lines give."""
    for block in page:
        if block.language == "sh":
            yield f"{block.text}echo '{MARK}'\n"
        elif block.language == "python":
            (name,) = re.findall(r"^# (\S+\.py)$", block.first_line)
            yield f"cat > {name} <<'END OF FILE'\n{block.text}END OF FILE\n"


def expected(page: list[Block]) -> list[str]:
    """What the page shows after each block of commands."""
    shown = [after.text if after.language == "text" else "" for after in [*page[1:], Block("", "")]]
    return [text for block, text in zip(page, shown, strict=True) if block.language == "sh"]


def test_the_page_does_what_it_says_in_less_than_five_minutes(installed: FreshVenv, tmp_path: Path) -> None:
    page = blocks(PAGE)
    started = time.monotonic()
    printed = installed.shell("".join(session(page)), tmp_path)
    took = time.monotonic() - started
    *outputs, rest = printed.split(f"{MARK}\n")
    assert rest == ""
    for output, text in zip(outputs, expected(page), strict=True):
        assert " ".join(text.split()) in " ".join(output.split())
    assert [bool(re.search(r"\d+ passed", output)) for output in outputs].count(True) == 2
    assert took < FIVE_MINUTES


def test_the_page_has_no_block_that_is_neither_typed_nor_shown() -> None:
    assert {block.language for block in blocks(PAGE)} == {"sh", "python", "text"}
