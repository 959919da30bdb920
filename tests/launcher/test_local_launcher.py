"""The launcher ``local``: its contract, and which devices a replica gets."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from sgframe.errors import ConfigError
from sgframe.testing import LauncherContract, check_plugin
from sgframe.testing.launcher import letters
from sgframe_local import LocalSettings
from sgframe_local.launcher import LocalLauncher


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_local") == []


class TestLocal(LauncherContract):
    def make(self) -> LocalLauncher:
        return LocalLauncher(LocalSettings())


def devices(replica: int, replicas: int, ranks: int = 2) -> dict[str, str]:
    launcher = LocalLauncher(LocalSettings(device_variables={"simulated": "DEVICES"}))
    (_, worker, *_) = letters(replica, replicas=replicas, transport="zmq")
    worker = msgspec.structs.replace(worker, ranks=replace(worker.ranks, size=ranks))
    return dict(launcher._devices(worker))


def test_each_replica_gets_as_many_devices_as_it_has_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEVICES", raising=False)
    assert [devices(replica, 2) for replica in range(2)] == [{"DEVICES": "0,1"}, {"DEVICES": "2,3"}]


def test_they_come_from_those_that_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICES", "7,5,GPU-3")
    assert [devices(replica, 3, ranks=1) for replica in range(3)] == [
        {"DEVICES": "7"},
        {"DEVICES": "5"},
        {"DEVICES": "GPU-3"},
    ]
    with pytest.raises(ConfigError, match="DEVICES is '7,5,GPU-3', but 2 replicas of 2 ranks need 4 devices"):
        devices(1, 2)


def test_an_only_replica_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICES", "7,5")
    assert devices(0, 1) == {}
