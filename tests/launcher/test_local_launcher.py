"""The launcher ``local``: its contract, and which devices a replica gets."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest

from sgframe.errors import ConfigError
from sgframe.testing import LauncherContract, check_plugin
from sgframe.testing.launcher import Diary, letters
from sgframe_local import LocalSettings
from sgframe_local.launcher import LocalLauncher


def test_the_plugin_is_sound() -> None:
    assert check_plugin("sgframe_local") == []


class TestLocal(LauncherContract):
    def make(self) -> LocalLauncher:
        return LocalLauncher(LocalSettings())


async def test_where_there_is_no_room_for_the_last_process_nothing_is_left_of_those_before(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    start, started = subprocess.Popen, []

    def start_one(*args: object, **options: object) -> subprocess.Popen[bytes]:
        if started:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        started.append(start(*args, **options))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start_one)
    before = psutil.Process().num_fds()
    threads = threading.active_count()
    with pytest.raises(ConfigError, match="the worker-0 process cannot be started: Resource temporarily unavailable"):
        await LocalLauncher(LocalSettings()).launch(letters(transport="zmq"), Diary())
    await asyncio.sleep(0.05)  # in which the loop hears of the end
    assert [process.returncode for process in started] == [-signal.SIGKILL]
    assert (psutil.Process().num_fds(), threading.active_count()) == (before, threads)
    assert list(short_path.iterdir()) == []


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


def test_where_there_are_none_no_replica_gets_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICES", "")
    with pytest.raises(ConfigError, match="DEVICES is '', but 2 replicas of 1 ranks need 2 devices"):
        devices(0, 2, ranks=1)


def test_an_only_replica_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICES", "7,5")
    assert devices(0, 1) == {}
