"""The simulated backend and model source under the contracts of their seams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sgframe.testing import BackendContract, Driver, SourceContract
from sgframe.testing.trees import Path
from sgframe_simulated import SimulatedSettings, SimulatedSourceSettings
from sgframe_simulated.backend import SimulatedBackend
from sgframe_simulated.model import logprob, prefix_hashes
from sgframe_simulated.source import SimulatedSource


class TestHash(BackendContract):
    mode: Literal["echo", "hash"] = "hash"
    draws = False

    def make(self) -> SimulatedBackend:
        return SimulatedBackend(SimulatedSettings(mode=self.mode))

    def path_logprobs(self, driver: Driver, prompt: Sequence[int], path: Path) -> list[float]:
        return [logprob(prefix_hashes([*prompt, *path[:depth]])[-1], token) for depth, token in enumerate(path)]


class TestEcho(TestHash):
    mode = "echo"


class TestPages(TestHash):
    def make(self) -> SimulatedBackend:
        return SimulatedBackend(SimulatedSettings(mode="hash", page_size=16))


class TestSource(SourceContract):
    def make(self) -> SimulatedSource:
        return SimulatedSource(SimulatedSourceSettings())
