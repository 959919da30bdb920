"""The benchmark of the scheduler runs and counts right. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(program: str, *arguments: str) -> dict[str, Any]:
    """What ``benchmarks/<program> --json`` prints."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / program), "--json", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_scheduler_times_each_part_of_its_step() -> None:
    report = run("scheduler.py", "--running", "4", "--steps", "20")
    decode, arrivals = report["step_costs"]
    assert decode["running"] == 4
    assert 0 < arrivals["running"] <= 4
    for cost in (decode, arrivals):
        assert 0 < cost["plan"]["median"] < cost["total"]["median"]
        assert 0 < cost["apply"]["median"] < cost["total"]["median"]
    assert report["end_to_end"]["tokens_per_second"] > 0
