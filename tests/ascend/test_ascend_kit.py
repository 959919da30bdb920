"""The device kit on the ascend backend over the double, in half precision: its fused operators are what runs."""

from __future__ import annotations

import npu_executors
import pytest

from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.backend import BackendContract
from sgframe.testing.speculation import SpeculationContract


class Kit(BackendContract, SpeculationContract):
    """Runs ``kind`` of model with pages of ``page_size``."""

    kind: str
    page_size: int
    checkpoint: Checkpoint

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _saved(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.checkpoint = npu_executors.save_model(cls.kind, tmp_path_factory.mktemp(cls.kind))

    def make_executor(self) -> Executor:
        return npu_executors.executor(self.page_size)

    def make_spec(self) -> ExecutorSpec:
        return ExecutorSpec(
            self.checkpoint,
            dtype="float16",
            max_rows=8,
            max_step_tokens=max(128, 3 * self.page_size),
            context_length=max(128, 3 * self.page_size),
            kv_slots=max(512, 16 * self.page_size),
        )


class TestWholePages(Kit):
    """What a device runs by default: every row is read by pages, rotated and normed by operators."""

    kind, page_size = "qwen3", 128


@pytest.mark.slow
class TestSmallPagesAndWindows(Kit):
    """Prefills and hidden parts of rows are read from copies."""

    kind, page_size = "mistral", 16
