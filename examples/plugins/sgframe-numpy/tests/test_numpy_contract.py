"""The backend keeps sgframe's contract: the plugin is sound, and the executor passes the whole kit."""

from __future__ import annotations

from sgframe_numpy.backend import NumpyBackend

from sgframe import PluginSettings
from sgframe.testing import BackendContract, check_plugin


class TestContract(BackendContract):
    def make(self) -> NumpyBackend:
        return NumpyBackend(PluginSettings())


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_numpy") == []


def test_it_runs_on_every_machine_on_one_rank() -> None:
    found = NumpyBackend(PluginSettings()).probe()
    assert (found.usable, found.dtypes, found.page_size, found.max_ranks) == (True, ("float32",), 1, 1)
    assert found.memory_bytes > 2**20
