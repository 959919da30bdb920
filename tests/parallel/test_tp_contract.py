"""Two ranks of the cpu backend get right what every executor must."""

from __future__ import annotations

import pytest
from lent_backend import LentBackend
from rank_processes import RankProcesses
from remote_executor import RemoteExecutor
from tiny_models import CONFIGS, save_model

from sgframe.interfaces.source import Checkpoint
from sgframe.testing import BackendContract


@pytest.fixture(scope="module")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save_model(CONFIGS["llama"](), tmp_path_factory.mktemp("llama"))


class TestTwoRanks(BackendContract):
    @pytest.fixture(autouse=True)
    def _given(self, ranks: RankProcesses) -> None:
        self.ranks = ranks

    @pytest.fixture
    def checkpoint(self, tiny_llama: Checkpoint) -> Checkpoint:
        return tiny_llama

    def make(self) -> LentBackend:
        return LentBackend(lambda: RemoteExecutor(self.ranks, 2))
