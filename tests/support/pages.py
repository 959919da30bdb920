"""The pages of the documentation as tests see them: what they tell the reader to run or to write, and where to run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).parents[2]
FIRST_USE = 800.0
"""Seconds that a start may take when the demo model has to be fetched and converted."""


class Block(NamedTuple):
    """A fenced block of a page: the word after the fence, and what stands in it."""

    language: str
    text: str

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def blocks(page: str, language: str | None = None) -> list[Block]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", (HOUSE / page).read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*found) for found in fenced if language in (None, found[0])]


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.text.splitlines()]


def table(page: str, header: str) -> list[list[str]]:
    """The cells of the rows below ``header``, a table's first line as it stands in ``page``."""
    _, found, rest = (HOUSE / page).read_text().partition(f"\n{header}\n")
    assert found, f"{page} has no table {header}"
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def write_files(folder: Path, *files: Block) -> None:
    """Each block's first line is a comment with its name."""
    for block in files:
        file = folder / re.findall(r"^# (\S+\.py)", block.text)[0]
        file.parent.mkdir(exist_ok=True)
        file.write_text(block.text)


def distribution(folder: Path, entry_point: str) -> None:
    """Make what ``folder`` holds an installed package with ``entry_point``, in TOML, of the group sgframe."""
    info = folder / "from_the_page-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: from-the-page\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sgframe]\n" + entry_point.replace('"', "") + "\n")


def environment(*folders: Path) -> dict[str, str]:
    """A shell's, of somebody who has sgframe and ``folders``; a ``make`` that runs these tests does not show."""
    path = os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
    return {"PYTHONPATH": path, "MAKEFLAGS": "", "MAKELEVEL": "0"}


def run(*command: str | Path, folder: Path, environ: Mapping[str, str]) -> str:
    """What ``command`` prints; it must succeed."""
    options = {"cwd": folder, "env": {**os.environ, **environ}, "timeout": FIRST_USE}
    done = subprocess.run(command, **options, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
