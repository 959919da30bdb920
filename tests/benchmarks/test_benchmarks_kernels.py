"""The benchmark of kernels runs, and its ratios are by what was measured. How fast anything is, no test says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from device.clock import Clock, Limits
from device.kernel_speed import Bench
from device.kernel_table import measure
from device.rows import MEASURED, Row
from device.sweep import sweep
from device.target import DRY
from plain_ops import PlainOps

from sgframe_cuda.tiles import Tile

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


def test_a_gpu_sleeps_while_a_run_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Mock(**{"Event.return_value.elapsed_time.return_value": 5.0})
    monkeypatch.setattr(torch.cuda, "_sleep", heard.sleep)
    monkeypatch.setattr(torch.cuda, "Event", heard.Event)
    monkeypatch.setattr(torch, "empty", lambda *_, **__: heard.flush)
    assert Clock(torch.device("cuda"), seconds=0.0)(heard.run) == 0.005
    once = ["flush.zero_", "Event", "Event", "sleep", "Event().record", "run", "Event().record"]
    assert [name for name, *_ in heard.mock_calls][1:8] == once  # after the run that compiles


class TestTiles:
    """Attention by one tile after the other."""

    TILES = Tile(128, 64, 8, 5), Tile(64, 64, 4, 3), Tile(128, 128, 8, 3)

    def rows(self, rates: dict[Tile, float]) -> list[Row]:
        """What is reported, the best last, where tiles achieve ``rates``; one that has none does not fit."""
        found: list[Row] = []

        def measure(tile: Tile) -> Row:
            if tile not in rates:
                raise RuntimeError("out of resources: shared memory")
            return Row("prefill attention", value=rates[tile], unit="TFLOP/s", note="9 µs")

        best = sweep("prefill", self.TILES, measure, found.append)
        return [*found, best] if best else found

    def test_the_best_comes_last(self) -> None:
        rows = self.rows(dict(zip(self.TILES, (100.0, 250.0, 200.0), strict=True)))
        assert [(row.what, row.value) for row in rows] == [
            ("prefill, 128 × 64, 8 warps, 5 stages", 100.0),
            ("prefill, 64 × 64, 4 warps, 3 stages", 250.0),
            ("prefill, 128 × 128, 8 warps, 3 stages", 200.0),
            ("best: prefill, 64 × 64, 4 warps, 3 stages", 250.0),
        ]
        assert rows[-1].note == "9 µs, 2.50 times that of the table"

    def test_one_that_does_not_fit_says_so(self) -> None:
        rows = self.rows({self.TILES[1]: 250.0})
        assert rows[0].note == rows[2].note == "RuntimeError: out of resources: shared memory"
        assert (rows[0].verdict, rows[-1].note) == (MEASURED, "9 µs")

    def test_there_may_be_no_best(self) -> None:
        assert len(self.rows({})) == 3


@pytest.mark.slow
def test_the_program_prints_what_it_measured() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--quick", "--cpu"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("not a GPU: the compiled kernels of the cpu backend")
    assert all(row in done.stdout for row in ROWS)
