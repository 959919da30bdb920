"""The backend keeps sgframe's contract: the plugin is sound, and the executor passes the whole kit."""

from __future__ import annotations

import pytest
from sgframe_numpy.backend import NumpyBackend
from sgframe_numpy.executor import NumpyExecutor

from sgframe import PluginSettings
from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.backend import BackendContract
from sgframe.testing.plugin import check_plugin


class TestContract(BackendContract):
    @pytest.fixture(autouse=True)
    def _use(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def make_executor(self) -> NumpyExecutor:
        return NumpyBackend(PluginSettings()).executor()

    def make_spec(self) -> ExecutorSpec:
        return ExecutorSpec(self.checkpoint, dtype="float32", max_rows=8, max_step_tokens=128, kv_slots=512)


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_numpy") == []


def test_it_runs_on_every_machine_on_one_rank() -> None:
    found = NumpyBackend(PluginSettings()).probe()
    assert (found.usable, found.dtypes, found.page_size, found.max_ranks) == (True, ("float32",), 1, 1)
    assert found.memory_bytes > 2**20
