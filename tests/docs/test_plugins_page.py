"""What docs/plugins.md says of the hooks and of the version rule is so."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib

import public_surface
import pytest
from pages import HOUSE, commands, environment, run

from sgframe.assembly import hookspecs
from sgframe.assembly.choice import CONTRACTS
from sgframe.assembly.hooks import COMMANDS, HOOKS
from sgframe.assembly.providers import API_VERSION

PAGE = "docs/plugins.md"
TEXT = (HOUSE / PAGE).read_text()
NAMES = sorted(name for name in vars(hookspecs) if name.startswith("sgframe_"))


def section(heading: str) -> str:
    _, found, rest = TEXT.partition(f"\n### `{heading}`\n")
    assert found, f"{PAGE} needs the heading ### `{heading}`"
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def signature(name: str) -> str:
    return name + str(inspect.signature(getattr(hookspecs, name))).replace("'", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_hook_has_a_section_headed_by_its_signature(name: str) -> None:
    assert section(signature(name)).strip()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hooks_section_names_its_contract_and_its_setting(name: str) -> None:
    contract, text = CONTRACTS[HOOKS[name]], " ".join(section(signature(name)).split())
    assert f"Targets subclass `{contract.__module__}.{contract.__name__}`." in text
    assert f"Chosen by `{HOOKS[name].value}`" in text


def test_no_section_is_about_a_hook_that_is_not_there() -> None:
    headings = re.findall(r"^### `(sgframe_\w+)", TEXT, re.MULTILINE)
    assert sorted(headings) == NAMES
    assert COMMANDS in headings


def test_the_version_rule_states_the_number() -> None:
    assert f"\nthrough them. It is {API_VERSION}, and" in TEXT.partition("\n## Versions\n")[2]


def test_the_command_of_the_version_rule_says_what_has_changed() -> None:
    written = [command.partition("  #")[0].strip() for command in commands(PAGE) if command.startswith("python ")]
    assert written == ["python tests/support/public_surface.py", "python tests/support/public_surface.py --write"]
    old, new = public_surface.Surface.parse(public_surface.SNAPSHOT.read_text()), public_surface.surface()
    printed = run(sys.executable, *written[0].split()[1:], folder=HOUSE, environ=environment())
    changed = [line for change in public_surface.changes(old, new) for line in str(change).splitlines()]
    assert printed.splitlines() == (changed or ["Nothing has changed since the last release."])


def test_the_changelog_ends_in_the_version_that_is_being_made() -> None:
    version = tomllib.loads((HOUSE / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (HOUSE / "CHANGELOG.md").read_text(), re.MULTILINE)
