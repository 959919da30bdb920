"""The commands and the profile of docs/simulator.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from sgframe_cli.group import main
from sgframe_simulator.costs import Costs, read_costs

HOUSE = Path(__file__).parents[2]
PAGE = (HOUSE / "docs" / "simulator.md").read_text()
COMMANDS = re.findall(r"^sgframe (simulate .*)$", PAGE, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the first requests of its trace; what it draws goes elsewhere."""
    monkeypatch.chdir(HOUSE)
    words = shlex.split(command.replace("docs/simulator.svg", str(tmp_path / "drawn.svg")))
    result = CliRunner().invoke(main, [*words, "--requests", "100", "--jobs", "1"])
    assert result.exit_code == 0, result.stderr
    assert '"hit_rate"' in result.stdout if "--json" in words else "HIT %" in result.stdout
    assert (tmp_path / "drawn.svg").exists() == ("--plot" in words)


def test_the_page_shows_the_default_profile(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "profile.toml").write_text(text)
    assert read_costs(tmp_path / "profile.toml") == Costs()


def test_the_plot_of_the_page_is_there() -> None:
    assert "![" in PAGE
    assert (HOUSE / "docs" / "simulator.svg").read_text().startswith("<?xml")
