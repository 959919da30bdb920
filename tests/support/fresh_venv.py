"""A virtual environment into which sgframe is installed from its wheel, without a network.

What sgframe and its tests depend on is lent by the environment that runs these tests: its packages are seen from the new
one, all but sgframe itself. So pip finds every requirement met, or says which one is not.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

PATIENCE = 500.0
"""Seconds that a command may take, on a machine that does other things as well."""
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1"}
"""Have pip take what is there. "0" is how its option without isolation is set: it is read as the value of the opposite."""
TOOLS = {
    "pip": "from pip._internal.cli.main import main",
    "pytest": "from pytest import console_main as main",
}
"""Commands whose packages are lent, and so without a script of their own."""


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of the project in ``source``, in ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, env=os.environ | OFFLINE, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def lend_packages(folder: Path) -> None:
    """Make ``folder`` one of links to all that is installed here, but for sgframe."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not re.match(r"_*(editable_+)?sgframe|__pycache__", entry.name) and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)


class FreshVenv:
    """The environment in ``folder``; ``packages`` are those it is lent."""

    def __init__(self, folder: Path, packages: Path) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        (self.site / "lent.pth").write_text(f"{packages}\n")
        for tool, imports in TOOLS.items():
            script = folder / "bin" / tool
            script.write_text(f"#!{folder}/bin/python\n{imports}\nraise SystemExit(main())\n")
            script.chmod(0o755)

    @property
    def site(self) -> Path:
        """Where pip installs."""
        (site,) = (self.folder / "lib").glob("python*/site-packages")
        return site

    def environ(self, **more: str) -> Mapping[str, str]:
        """A shell's, with the environment activated and one thread to a process."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SGFRAME_", "PYTEST_"))
        }
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        return {**kept, **OFFLINE, "PATH": path, "VIRTUAL_ENV": str(self.folder), "OMP_NUM_THREADS": "1", **more}

    def shell(self, commands: str, cwd: Path, **more: str) -> str:
        """What ``commands`` print in a shell of ``cwd``; each must succeed. What they leave running is ended."""
        shell = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", commands],
            cwd=cwd,
            env=self.environ(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = shell.communicate(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
        assert shell.returncode == 0, f"{commands}\n{printed}"
        return printed
