"""An open loop takes requests by their timestamps, wherever in the file they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sgframe_cli.simulate import simulate

LINES = [
    json.dumps({"timestamp": i * 150, "input_length": 1024, "output_length": 20, "hash_ids": [2 * i, 2 * i + 1]})
    for i in range(60)
]
WORDS = [
    *("--policy", "fcfs", "--slots", "8192", "--rate", "20", "--jobs", "1", "--json"),
    *("--max-running", "4", "--max-step-tokens", "512"),
]


def figures(path: Path, lines: list[str]) -> dict[str, float]:
    path.write_text("\n".join(lines))
    (run,) = json.loads(CliRunner().invoke(simulate, [str(path), *WORDS]).stdout)
    return {key: run[key] for key in ("ttft_p50", "ttft_p99", "max_wait")}


def test_the_order_of_the_lines_changes_nothing(tmp_path: Path) -> None:
    assert figures(tmp_path / "a", LINES) == pytest.approx(figures(tmp_path / "b", LINES[::-1]))


@pytest.mark.parametrize("rate", ["nan", "inf"])
def test_a_rate_that_is_no_number_is_refused(tmp_path: Path, rate: str) -> None:
    (tmp_path / "a").write_text(LINES[0])
    assert CliRunner().invoke(simulate, [str(tmp_path / "a"), "--rate", rate, "--jobs", "1"]).exit_code == 2
