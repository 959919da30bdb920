"""The device kit on the ascend backend over the double, in half precision: its fused operators are what runs."""

from __future__ import annotations

import npu_executors
import pytest
from lent_backend import LentBackend

from sgframe.interfaces.source import Checkpoint
from sgframe.testing import BackendContract


class Kit(BackendContract):
    """Runs ``kind`` of model with pages of ``page_size``."""

    kind: str
    page_size: int
    dtype = "float16"

    @pytest.fixture(scope="class")
    @classmethod
    def checkpoint(cls, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
        return npu_executors.save_model(cls.kind, tmp_path_factory.mktemp(cls.kind))

    def make(self) -> LentBackend:
        return LentBackend(lambda: npu_executors.executor(self.page_size), page_size=self.page_size, dtype=self.dtype)


class TestWholePages(Kit):
    """What a device runs by default: every row is read by pages, rotated and normed by operators."""

    kind, page_size = "qwen3", 128


@pytest.mark.slow
class TestSmallPagesAndWindows(Kit):
    """Prefills and hidden parts of rows are read from copies."""

    kind, page_size = "mistral", 16
