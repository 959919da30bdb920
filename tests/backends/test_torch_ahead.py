"""Everything that every executor must get right, on a device that tells its tokens late and replays recorded steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from lent_backend import LentBackend
from plain_ops import PlainOps

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing import BackendContract, Driver
from sgframe_torch.executor import TorchExecutor


class Late:
    """A tensor that is on its way until somebody waits for it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._values = tensor.clone().numpy()
        self._waited = False

    def done(self) -> bool:
        return self._waited

    def wait(self) -> np.ndarray:
        self._waited = True
        return self._values


class LateOps(PlainOps):
    """Uploads are copies, since a device never shares the host's memory."""

    def upload(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.copy())

    def download(self, tensor: torch.Tensor) -> Late:
        return Late(tensor)


class RecordingOps(LateOps):
    """``capture`` runs nothing; a replay does what was recorded, and is counted."""

    def __init__(self, rows: int) -> None:
        self.graph_rows = rows
        self.replays = 0

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            self.replays += 1
            run()

        return replay


class TestTokensThatComeLate(BackendContract):
    def make(self) -> LentBackend:
        return LentBackend(lambda: TorchExecutor(LateOps()))


class TestRecordedSteps(BackendContract):
    def make(self) -> LentBackend:
        return LentBackend(lambda: TorchExecutor(RecordingOps(3)))


@pytest.fixture
def ops() -> RecordingOps:
    return RecordingOps(2)


@pytest.fixture
def driver(ops: RecordingOps, checkpoint: Callable[[str], Checkpoint]) -> Driver:
    spec = ExecutorSpec(checkpoint("llama"), "float32", max_rows=8, max_step_tokens=128, kv_slots=512)
    return Driver(TorchExecutor(ops), spec)


def test_decode_steps_of_few_enough_rows_are_replayed(driver: Driver, ops: RecordingOps) -> None:
    rows = [driver.admit([1, 2, 3]) for _ in range(3)]
    counts = []
    for work in (
        {rows[0]: 3, rows[1]: 3},
        {rows[0]: 1, rows[1]: 1},
        {rows[0]: 1},
        {rows[2]: 3},
        dict.fromkeys(rows, 1),
    ):
        before = ops.replays
        driver.step(work)
        counts.append(ops.replays - before)
    assert counts == [0, 1, 1, 0, 0]


def test_a_chunk_of_one_token_is_replayed_and_not_sampled(driver: Driver, ops: RecordingOps) -> None:
    expected = driver.generate([1, 2, 3], 3)
    row, other = driver.admit([1, 2, 3]), driver.admit([4])
    for _ in range(3):
        before = ops.replays
        output = driver.step({row: 1, other: 1})
        assert ops.replays == before + 1
    assert list(output.rows) == [row.row, other.row]
    driver.decode([row, other], 2)
    assert row.output == expected
