"""The check of the cuda backend: what it makes of a served load, and of the time in which a device stands idle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from device.rows import FAILED, MISSED, OK
from device.served import Served, idle_rows, load_rows
from device.target import Load
from device.watched import WatchedSettings
from device.watched.backend import WatchedExecutor

from sgframe.interfaces.backend import Executor
from sgframe.messages import ScheduleBatch, ints


class TestServing:
    """From answers to rows."""

    def test_one_request_counts_from_its_first_token(self) -> None:
        rate, first = load_rows("alone", Load(1, 8, 5), [Served(0.5, 2.5, [0] * 5)], seconds=3.0)
        assert (rate.value, first.value) == (2.0, 500.0)

    def test_many_requests_count_all_they_took(self) -> None:
        answers = [Served(0.1, 1.0, [0] * 5), Served(0.3, 2.0, [0] * 5)]
        rate, first = load_rows("many", Load(2, 8, 5), answers, seconds=2.0)
        assert (rate.value, first.value) == (5.0, 200.0)

    def test_too_few_tokens_are_a_failure(self) -> None:
        (row,) = load_rows("alone", Load(1, 8, 5), [Served(0.1, 1.0, [0] * 4)], seconds=2.0)
        assert (row.verdict, row.note) == (FAILED, "4 tokens came, 5 should")

    def test_steps_that_nobody_watched_are_a_failure(self, tmp_path: Path) -> None:
        assert [row.verdict for row in idle_rows(tmp_path / "none", aim=50.0)] == [FAILED]

    def test_idle_times_are_held_against_the_aim(self, tmp_path: Path) -> None:
        lines: list[dict[str, float | None]] = [
            {"rows": 1, "pieces": 9, "idle": 2e-5},
            {"rows": 64, "pieces": 9, "idle": 7e-5},
        ]
        lines.append({"rows": 8, "pieces": 0, "idle": None})
        (tmp_path / "idle").write_text("\n".join(map(json.dumps, lines)))
        assert [row.verdict for row in idle_rows(tmp_path / "idle", aim=50.0)] == [OK, MISSED, FAILED]


class TestWatching:
    """Which steps of an executor are watched."""

    class Line:
        """A time line on which every piece of work takes one second, and a second lies between two."""

        def __init__(self) -> None:
            self.pieces: list[tuple[float, float]] = []

        def start(self) -> None:
            self.pieces = []

        def work(self, run: Callable[[], None]) -> None:
            run()
            at = 2.0 * len(self.pieces)
            self.pieces.append((at, at + 1))

        def stop(self) -> list[tuple[float, float]]:
            return self.pieces

    @pytest.fixture
    def decode(self, tmp_path: Path) -> Callable[..., list[dict[str, float]]]:
        """``decode(rows, …)`` executes a step of so many rows each; gives what was noted by then."""
        inner = Mock(spec=Executor)
        settings = WatchedSettings(file=str(tmp_path / "idle"), begin=str(tmp_path / "begin"), skip=2, steps=2)
        watched = WatchedExecutor(inner, self.Line(), settings)
        (tmp_path / "begin").touch()

        def run(*rows: int, count: int = 1) -> list[dict[str, float]]:
            for number in rows:
                watched.forward(batch(number, count))
                watched.sample(None)
            assert inner.forward.call_count == inner.sample.call_count
            lines = (tmp_path / "idle").read_text() if (tmp_path / "idle").exists() else ""
            return [json.loads(line) for line in lines.splitlines()]

        return run

    def test_two_steps_after_the_second_of_a_kind(self, decode: Callable[..., list[dict[str, float]]]) -> None:
        assert decode(3, 3, 3) == []
        assert decode(3) == [{"rows": 3, "pieces": 4, "idle": pytest.approx(2 / 1.5)}]

    def test_each_number_of_rows_once(self, decode: Callable[..., list[dict[str, float]]]) -> None:
        noted = decode(*[3] * 9, *[5] * 9, *[3] * 9)
        assert [each["rows"] for each in noted] == [3, 5]

    def test_only_steps_of_one_kind_in_a_row(self, decode: Callable[..., list[dict[str, float]]]) -> None:
        assert decode(3, 3, 5, 3, 3, 3, 5, 5) == []

    def test_no_prefill(self, decode: Callable[..., list[dict[str, float]]]) -> None:
        assert decode(*[3] * 9, count=2) == []

    def test_nothing_before_it_may_begin(self, decode: Callable[..., list[dict[str, float]]], tmp_path: Path) -> None:
        (tmp_path / "begin").unlink()
        assert decode(*[3] * 9) == []
        (tmp_path / "begin").touch()
        assert [each["rows"] for each in decode(*[3] * 4)] == [3]


def batch(rows: int, count: int) -> ScheduleBatch:
    """A step in which so many rows compute ``count`` tokens each."""
    none = ints()
    numbers, counts, slots = ints(range(rows)), ints([count] * rows), ints(range(rows * count))
    return ScheduleBatch(0, none, [], [], numbers, counts, slots, ints([1] * rows))
