"""Every hook has a section in the docs, headed by its signature, and is named by a test of the assembly."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from sgframe.assembly import hookspecs
from sgframe.assembly.plugins import HOOKS
from sgframe.assembly.providers import Seam

HOUSE = Path(__file__).parents[2]
NAMES = sorted(name for name in vars(hookspecs) if name.startswith("sgframe_"))


def test_every_seam_has_a_hook_and_every_hook_a_seam_but_commands() -> None:
    assert set(HOOKS) == set(Seam)
    assert sorted([*HOOKS.values(), "sgframe_commands"]) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_is_documented_with_its_signature(name: str) -> None:
    arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
    headings = re.findall(r"^#+ `(.*)`$", (HOUSE / "docs" / "plugins.md").read_text(), re.MULTILINE)
    assert f"{name}({arguments})" in headings


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_is_named_by_a_test(name: str) -> None:
    assert any(name in file.read_text() for file in (HOUSE / "tests" / "assembly").glob("test_*.py"))
