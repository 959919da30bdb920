"""The command answers quickly however many plugins are installed: by what it imports, and within very generous limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import startup

BENCHMARK = Path(startup.__file__)


def python(*arguments: str | Path, folder: Path | None = None) -> str:
    path = [str(folder)] if folder else []
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)])}
    argv = [sys.executable, *map(str, arguments)]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, timeout=100).stdout


def test_the_benchmark_measures_each_command_within_generous_limits() -> None:
    report = json.loads(python(BENCHMARK, "--json", "--runs", "1"))
    cpu = {start["command"]: start["cpu"] for start in report["starts"]}
    assert report["distributions"] == 30
    assert 0 < cpu["sgframe --help"] < 1.0
    assert 0 < cpu["sgframe plugins"] < 2.0


def test_its_distributions_are_found_with_their_settings(tmp_path: Path) -> None:
    startup.install(tmp_path, 3)
    listed = json.loads(python("-m", "sgframe", "plugins", "--json", folder=tmp_path))
    fair = [(row["name"], row["source"], row["state"]) for row in listed if row["name"].startswith("fair-")]
    assert fair == [(f"fair-{number}", f"sgframe-fair-{number} 1.0", "ok") for number in range(3)]


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("--help", {"importlib.metadata", "msgspec", "pluggy", "pydantic", "yaml"}),
        ("plugins", {"fastapi", "llguidance", "numba", "torch", "transformers", "xgrammar", "zmq"}),
    ],
)
def test_a_command_imports_only_what_it_needs(command: str, unneeded: set[str]) -> None:
    code = (
        "import sys\nfrom sgframe_cli import main\n"
        f"main([{command!r}], standalone_mode=False)\n"
        f"print(*sorted({unneeded!r} & sys.modules.keys()))"
    )
    assert python("-c", code).splitlines()[-1] == ""
