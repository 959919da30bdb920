"""What pytest finds: the contract of backends, for the executor that ``contract`` asks for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from device.contract import DEVICE, FOLDER
from device.executors import make_executor
from device.target import DRY
from sgframe.interfaces.backend import Backend, Capabilities, Executor
from sgframe.interfaces.source import Checkpoint
from sgframe.testing import BackendContract


class NamedDevice(Backend):
    """The device that the check was given; it is there, or nobody would have come to this."""

    def __init__(self, device: str) -> None:
        self._device = device

    def probe(self) -> Capabilities:
        return Capabilities(usable=True, device=self._device, memory_bytes=2**30, dtypes=("float32",), verifies=True)

    def executor(self) -> Executor:
        return make_executor(self._device)


class TestExecutor(BackendContract):
    """In float32, so that tokens are the same whatever shape a batch has."""

    def make(self) -> NamedDevice:
        return NamedDevice(os.environ[DEVICE])

    @pytest.fixture
    def checkpoint(self) -> Checkpoint:
        folder = os.environ[FOLDER]
        return Checkpoint(Path(folder).name, folder, DRY.model.context, DRY.model.vocab, ())
