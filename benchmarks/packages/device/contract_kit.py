"""What pytest finds: the contract of executors, for the executor that ``contract`` asks for."""

from __future__ import annotations

import os
from pathlib import Path

from device.contract import DEVICE, FOLDER
from device.executors import make_executor
from device.target import DRY
from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.testing.backend import BackendContract
from sgframe.testing.speculation import SpeculationContract


class TestExecutor(BackendContract, SpeculationContract):
    """In float32, so that tokens are the same whatever shape a batch has."""

    def make_executor(self) -> Executor:
        return make_executor(os.environ[DEVICE])

    def make_spec(self) -> ExecutorSpec:
        folder = os.environ[FOLDER]
        model = Checkpoint(Path(folder).name, folder, DRY.model.context, DRY.model.vocab, ())
        return ExecutorSpec(model, "float32", max_rows=8, max_step_tokens=128, context_length=128, kv_slots=512)
