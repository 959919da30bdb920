"""The ascend executor, where the module torch_npu is the double."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import npu_executors
import pytest
from npu_device import GIB
from npu_double import OPERATORS, double

from sgframe.errors import BackendUnavailable
from sgframe.interfaces.backend import Executor, ExecutorSpec, Ranks
from sgframe_ascend import AscendSettings, backend
from sgframe_ascend import executor as executor_module
from sgframe_ascend.backend import AscendBackend
from sgframe_ascend.ops import AscendOps
from sgframe_ascend.software import OPERATORS as REQUIRED


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The double in the place of torch_npu, on a machine that has NPUs."""
    module = double()
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    monkeypatch.setattr(backend, "find_npus", lambda: ((0, 1, 2, 3), ""))
    monkeypatch.setattr(backend, "missing_software", list)
    monkeypatch.setattr(executor_module, "AscendOps", partial(AscendOps, device="cpu"))
    return module


@pytest.fixture
def executor(npu: ModuleType) -> Executor:
    return AscendBackend(AscendSettings()).executor()


def load(executor: Executor, folder: Path, **spec: Any) -> Any:
    checkpoint = npu_executors.save_model("qwen3", folder)
    return executor.load(
        ExecutorSpec(checkpoint, "auto", 4, 128, context_length=256, **spec), lambda what, done, total: None
    )


def test_torch_npu_is_asked_for_all_operators_that_are_called() -> None:
    assert set(REQUIRED) == set(OPERATORS)


def test_a_rank_that_is_alone_takes_the_first_device(npu: ModuleType, executor: Executor, tmp_path: Path) -> None:
    load(executor, tmp_path)
    assert npu.npu.chosen == [0]


def test_a_device_that_is_not_there_stops_a_rank_before_it_joins(executor: Executor) -> None:
    with pytest.raises(BackendUnavailable, match="rank 4 needs NPU 4 of its machine, but there are 4"):
        executor.join(Ranks(rank=4, size=5), lambda reason: None)


def test_the_preferred_dtype_whole_pages_and_the_ledger_are_announced(executor: Executor, tmp_path: Path) -> None:
    loaded = load(executor, tmp_path, kv_slots=700)
    assert (loaded.dtype, loaded.page_size, loaded.slots) == ("bfloat16", 128, 640)
    lines = {line.name: line.bytes for line in loaded.ledger}
    assert (lines["outside torch"], lines["left free"]) == (11 * GIB, 51 * GIB)
