"""What docs/many-machines.md shows is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sgframe_cli.group import main
from sgframe_ray import RaySettings

PAGE = (Path(__file__).parents[2] / "docs" / "many-machines.md").read_text()


@pytest.mark.slow
def test_the_launcher_that_is_shown_passes_its_contract(tmp_path: Path) -> None:
    files = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in files] == ["sgframe_by_hand/launcher.py", "test_by_hand.py"]
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_mode=auto", "test_by_hand.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("command", re.findall(r"^sgframe serve (.*?) *(?:#.*)?$", PAGE, re.MULTILINE))
def test_a_command_that_is_shown_can_be_chosen(command: str) -> None:
    if "ray" in command:
        pytest.importorskip("ray")
    result = CliRunner().invoke(main, ["config", "check", *command.split()])
    assert result.exit_code == 0, result.output


def test_every_setting_of_ray_is_in_the_table_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `plugin\.ray\.(\w+)` \| `?([^|`]+?)`? \|", PAGE, re.MULTILINE))
    assert rows == {name: str(field.default) for name, field in RaySettings.model_fields.items()}
