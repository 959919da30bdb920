"""Measures how quickly the command answers with many plugins installed: ``python benchmarks/startup.py --help``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

import msgspec
from drive.machine import Machine, this_machine

COMMANDS = (("--version",), ("--help",), ("plugins",))
HOOKS = """
from pydantic import NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class Settings{number}(PluginSettings):
    patience: NonNegativeInt = 16384


@hookimpl
def sgframe_policies():
    return [Provider("fair-{number}", "sgframe_fair_{number}.policy:Fair", "fair", Settings{number}, api=1)]
"""


class Start(msgspec.Struct, frozen=True):
    """Seconds from the start of ``sgframe COMMAND`` to its end, by the clock and of processor time: medians of all runs."""

    command: str
    wall: float
    cpu: float


class Report(msgspec.Struct, frozen=True):
    machine: Machine
    distributions: int
    runs: int
    starts: list[Start]


def install(folder: Path, distributions: int) -> None:
    """Put so many distributions into ``folder``, each with a hook module that offers a policy with settings of its own."""
    for number in range(distributions):
        package = folder / f"sgframe_fair_{number}"
        package.mkdir()
        (package / "__init__.py").write_text(HOOKS.format(number=number))
        info = folder / f"sgframe_fair_{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sgframe-fair-{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sgframe]\nfair-{number} = sgframe_fair_{number}\n")


def measure(folder: Path, command: Sequence[str], runs: int) -> Start:
    """The first run, which may have to compile the modules, does not count."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path[1:])])}
    walls, cpus = [], []
    for _ in range(runs + 1):
        used, start = cpu_seconds(), time.perf_counter()
        argv = [sys.executable, "-m", "sgframe", *command]
        subprocess.run(argv, env=environ, stdout=subprocess.DEVNULL, check=True, timeout=600)
        walls.append(time.perf_counter() - start)
        cpus.append(cpu_seconds() - used)
    return Start(" ".join(("sgframe", *command)), median(walls[1:]), median(cpus[1:]))


def cpu_seconds() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def printed(report: Report) -> str:
    lines = [f"{report.distributions} plugin distributions, medians of {report.runs} runs; {report.machine}"]
    lines += [
        f"{start.command:<20} {start.wall:>6.3f} s  {start.cpu:>6.3f} s of processor time" for start in report.starts
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--distributions", type=int, default=30, help="plugin distributions that are installed")
    parser.add_argument("--runs", type=int, default=10, help="runs of each command, after one that does not count")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    machine = this_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder, arguments.distributions)
        starts = [measure(folder, command, arguments.runs) for command in COMMANDS]
    report = Report(machine, arguments.distributions, arguments.runs, starts)
    print(json.dumps(msgspec.to_builtins(report)) if arguments.json else printed(report))


if __name__ == "__main__":
    main()
