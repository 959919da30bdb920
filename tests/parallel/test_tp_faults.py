"""What goes wrong on one rank ends all of them, and names that rank."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch_service
from msgspec.structs import replace
from rank_processes import RankDied, RankProcesses
from tiny_models import CONFIGS, save_model

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import ScheduleBatch, ints
from sgframe.testing.driver import Driver
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import CpuExecutor
from sgframe_torch.rows import RowTable, Step

FAULTY_STEP = 6
STEPS = 12


def two_rows_change_places(batch: ScheduleBatch) -> ScheduleBatch:
    first, second, *others = batch.rows
    return replace(batch, rows=ints([second, first, *others]))


def one_row_reads_another_slot(batch: ScheduleBatch) -> ScheduleBatch:
    first, second, *others = batch.slots
    return replace(batch, slots=ints([second, first, *others]))


def out_of_memory(batch: ScheduleBatch) -> ScheduleBatch:
    raise RuntimeError("out of memory")


def killed(batch: ScheduleBatch) -> ScheduleBatch:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process does nothing")


def stands_still(batch: ScheduleBatch) -> ScheduleBatch:
    time.sleep(30)
    return batch


FAULTS: dict[str, Callable[[ScheduleBatch], ScheduleBatch]] = {
    fault.__name__: fault
    for fault in (two_rows_change_places, one_row_reads_another_slot, out_of_memory, killed, stands_still)
}


def decode(ranks: Ranks, checkpoint: Checkpoint, reasons: str, fault: str) -> None:
    """Two ranks decode four rows; on rank 1 ``fault`` happens to the plan of FAULTY_STEP. Reasons to give up are files."""

    def give_up(reason: str) -> None:
        Path(reasons, str(ranks.rank)).write_text(reason)
        os._exit(1)

    executor = CpuExecutor(CpuSettings(threads=1))
    executor.join(
        Ranks(rank=ranks.rank, size=ranks.size, folder=ranks.folder, step_timeout=0.5, digest_interval=4), give_up
    )
    try:
        if ranks.rank:
            executor.load(torch_service.spec(checkpoint), lambda what, done, total: None)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(RowTable, "apply", spoilt(RowTable.apply, FAULTS[fault]))
                executor.follow()
        else:
            driver = Driver(executor, torch_service.spec(checkpoint))
            rows = [driver.admit([1 + row, 2, 3]) for row in range(4)]
            for _ in range(STEPS):
                driver.decode(rows, 1)
                time.sleep(0.05)  # digests travel beside the work
            time.sleep(2)
    except RankLost as lost:
        Path(reasons, str(ranks.rank)).write_text(str(lost))
        raise
    finally:
        executor.close()


def spoilt(apply: Callable[..., Step], fault: Callable[[ScheduleBatch], ScheduleBatch]) -> Callable[..., Step]:
    def spoilt_apply(table: RowTable, batch: ScheduleBatch) -> Step:
        return apply(table, fault(batch) if batch.step == FAULTY_STEP else batch)

    return spoilt_apply


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save_model(CONFIGS["llama"](), tmp_path_factory.mktemp("llama"))


@pytest.fixture
def reasons(ranks: RankProcesses, checkpoint: Checkpoint, tmp_path: Path) -> Callable[[str], dict[int, str]]:
    """``reasons(fault)``: why each rank gave up, of those that could tell."""

    def run(fault: str) -> dict[int, str]:
        outcomes: list[Any] = ranks.outcomes(2, decode, checkpoint, str(tmp_path), fault)
        assert all(isinstance(outcome, (RankDied, RankLost, RuntimeError)) for outcome in outcomes), outcomes
        return {int(path.name): path.read_text() for path in tmp_path.iterdir()}

    return run


@pytest.mark.parametrize("fault", ["two_rows_change_places", "one_row_reads_another_slot"])
def test_a_rank_that_executes_another_plan_is_found_out(reasons: Any, fault: str) -> None:
    assert f"The first step known to differ is {FAULTY_STEP}:" in reasons(fault)[0]


def test_both_plans_are_shown(reasons: Any) -> None:
    told = reasons("two_rows_change_places")[0]
    assert f"> step {FAULTY_STEP}, rank 0: rows 0 1 2 3" in told
    assert f"> step {FAULTY_STEP}, rank 1" in told
    assert "rows 1 0 2 3" in told


def test_a_step_that_fails_on_one_rank_ends_all(reasons: Any) -> None:
    told = reasons("out_of_memory")
    assert "rank 1 of 2" in told[0]
    assert f"failed: in step {FAULTY_STEP}: RuntimeError: out of memory" in told[0]


def test_a_rank_that_is_killed_is_named(reasons: Any) -> None:
    told = reasons("killed")
    assert "rank 1 of 2" in told[0]
    assert "died" in told[0]


def test_a_rank_that_stands_still_is_named_after_the_time_of_a_step(reasons: Any) -> None:
    told = reasons("stands_still")
    assert "rank 1 of 2" in told[0]
    assert f"step {FAULTY_STEP}" in told[0]
