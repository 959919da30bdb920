"""The unit: valid by systemd's own tool where that can run, and with time to drain."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import HOUSE

from sgframe.assembly.settings import Settings
from sgframe.interfaces.launcher import KILL_AFTER
from sgframe_cli.group import main
from sgframe_cli.serve import CLOSE_GRACE

UNIT = HOUSE / "examples" / "deploy" / "systemd" / "sgframe.service"
PROGRAM = "/opt/sgframe/bin/sgframe"
MOST_EXPOSED = 3.0
"""Of 10; what systemd-analyze calls OK ends at 5."""
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there."""
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    return file


def service(key: str) -> str:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser["Service"][key]


def analyze(*arguments: object) -> tuple[int, str]:
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


@needs_systemd
def test_systemd_has_nothing_to_say(unit: Path) -> None:
    assert analyze("verify", "--man=no", unit) == (0, "")


@needs_systemd
def test_the_service_has_few_rights(unit: Path) -> None:
    _, report = analyze("security", "--offline=true", unit)
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", report)
    assert exposure, report
    assert float(exposure[1]) <= MOST_EXPOSED


def test_it_may_drain_before_it_is_killed() -> None:
    drain = Settings.model_fields["drain_timeout"].default
    assert float(service("TimeoutStopSec")) > drain + CLOSE_GRACE + KILL_AFTER
    assert service("KillMode") == "mixed", "the engine's other processes end with the first one"


def test_being_stopped_while_it_starts_is_no_failure() -> None:
    assert "143" in service("SuccessExitStatus").split()


def test_its_commands_are_ones_that_there_are(tmp_path: Path) -> None:
    for key in ("ExecStartPre", "ExecStart"):
        program, *words = service(key).split()
        assert program == PROGRAM
        assert words[-2:] == ["--config", "/etc/sgframe/deploy.toml"]
        assert CliRunner().invoke(main, [*words[:-2], "--help"]).exit_code == 0


def test_kernels_may_be_compiled() -> None:
    assert "MemoryDenyWriteExecute" not in UNIT.read_text()
    assert "NUMBA_CACHE_DIR=/var/cache/sgframe/numba" in service("Environment")
