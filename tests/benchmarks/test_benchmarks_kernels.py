"""The benchmark of kernels runs, and its ratios are by what was measured. How fast anything is, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from device.clock import Limits
from device.kernel_speed import Bench
from device.kernel_table import measure
from device.rows import Row
from device.target import DRY
from plain_ops import PlainOps

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "kernels.py"
ROWS = [
    "measured copy bandwidth",
    "measured matmul rate",
    "decode attention, 2 × 16",
    "decode attention, one long row, 1 × 64",
    "prefill attention, 1 × 8",
    "extend attention, 1 × 8 after 16",
    "rms norm",
    "add and rms norm",
    "SiLU · up",
    "rotate and store",
    "mask",
    "draw",
    "draw, top-k and top-p",
]


@pytest.fixture
def rows() -> dict[str, Row]:
    """Those of a device that takes a second for everything, copies 1000 bytes in it and does 10,000 operations."""
    bench = Bench(PlainOps(), DRY, Limits(1e3, 1e4), torch.bfloat16, lambda run: 1.0, aims=True)
    return {row.what: row for row in (*bench.attention_rows(), *bench.small_rows())}


@pytest.mark.slow
def test_the_cpu_backends_kernels_have_all_rows() -> None:
    found = measure(torch.device("cpu"), torch.float32, quick=True)
    assert [row.what for row in found] == ROWS
    assert all(row.value is not None and row.value > 0 for row in found)


def test_the_kernels_of_any_device_have_all_rows(rows: dict[str, Row]) -> None:
    assert list(rows) == ROWS[2:]
    assert all(row.value is not None and row.value > 0 for row in rows.values())


def test_decoding_is_taken_by_the_kv_that_it_reads(rows: dict[str, Row]) -> None:
    read = 2 * 16 * 2 * (16 + 16) * 2  # rows, tokens, KV heads, a key and a value, bytes
    assert rows["decode attention, 2 × 16"].ratio == pytest.approx(read / 1e3)


def test_prefilling_is_taken_by_the_pairs_that_see_each_other(rows: dict[str, Row]) -> None:
    pairs = 8 * 9 // 2
    operations = 2 * pairs * 4 * (16 + 16)  # a multiplication and an addition, query heads, a key and a value
    assert rows["prefill attention, 1 × 8"].ratio == pytest.approx(operations / 1e4)
    pairs += 8 * 16
    assert rows["extend attention, 1 × 8 after 16"].ratio == pytest.approx(2 * pairs * 4 * 32 / 1e4)


def test_a_norm_is_taken_by_what_it_reads_and_writes(rows: dict[str, Row]) -> None:
    x = 4 * 64 * 2  # tokens, hidden size, bytes
    assert rows["rms norm"].ratio == pytest.approx(2 * x / 1e3)
    assert rows["add and rms norm"].ratio == pytest.approx(4 * x / 1e3)


def test_two_rows_have_an_aim(rows: dict[str, Row]) -> None:
    aims = {row.what: row.aim for row in rows.values() if row.aim}
    assert aims == {"decode attention, 2 × 16": "≥ 80%", "prefill attention, 1 × 8": "≥ 50%"}


@pytest.mark.slow
def test_the_program_prints_what_it_measured() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--quick", "--cpu"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not a GPU: the compiled kernels of the cpu backend")
    assert all(row in done.stdout for row in ROWS)
