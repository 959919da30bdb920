"""Two ranks of the cpu backend get right what every executor must."""

from __future__ import annotations

import pytest
from rank_processes import RankProcesses
from remote_executor import RemoteExecutor
from tiny_models import CONFIGS, save_model

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.backend import BackendContract
from sgframe.testing.speculation import SpeculationContract


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save_model(CONFIGS["llama"](), tmp_path_factory.mktemp("llama"))


class TestTwoRanks(BackendContract, SpeculationContract):
    @pytest.fixture(autouse=True)
    def _given(self, ranks: RankProcesses, tiny_llama: Checkpoint) -> None:
        self.ranks, self.checkpoint = ranks, tiny_llama

    def make_executor(self) -> RemoteExecutor:
        return RemoteExecutor(self.ranks, 2)

    def make_spec(self) -> ExecutorSpec:
        return ExecutorSpec(self.checkpoint, "float32", max_rows=8, max_step_tokens=128, kv_slots=512)
