"""The process that compiles kernels while another loads the model: what it is told, when it ends, what is done meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import Loaded
from sgframe_cpu import CpuSettings, backend, compiling, executor
from sgframe_cpu.backend import CpuBackend
from sgframe_cpu.compiling import Helper, Sizes, start_helper
from sgframe_cpu.executor import CpuExecutor, NumbaCpuOps, TorchCpuOps
from sgframe_torch.executor import TorchExecutor

SETTINGS = CpuSettings(threads=1)
SIZES = Sizes(np.uint16, head=16, hidden=32, inner=48)
LOADED = Loaded(vocab_size=64, context_length=256, slots=256, page_size=1, dtype="bfloat16", ledger=[])
DRAWS = np.array([[1.0, 0, 0.9, 0, 0.5]])  # temperature, top-k, top-p, min-p, uniform


class Fake:
    """A helper that notes what it is told."""

    def __init__(self, working=False):
        self.told, self.ended, self.working = [], False, working

    def tell(self, sizes):
        self.told.append(sizes)

    def at_work(self):
        return self.working

    def end(self):
        self.ended = True


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    """Where the helper has all to do, and does it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that in 30 s")


def test_it_is_started_where_the_kernels_are_not_in_the_cache(monkeypatch):
    monkeypatch.setattr(compiling, "Helper", Fake)
    monkeypatch.setattr(compiling, "is_cached", lambda *_: False)
    assert isinstance(start_helper(), Fake)
    monkeypatch.setattr(compiling, "is_cached", lambda *_: True)
    assert start_helper() is None


@pytest.mark.parametrize(("settings", "cores", "started"), [({}, 2, 1), ({}, 1, 0), ({"kernels": "torch"}, 2, 0)])
def test_it_takes_a_core_of_its_own_and_kernels_to_compile(monkeypatch, settings, cores, started):
    starts = []
    monkeypatch.setattr(compiling, "start_helper", lambda: starts.append(1))
    monkeypatch.setattr(backend, "cores", lambda: cores)
    CpuBackend(CpuSettings(**settings)).executor()
    assert len(starts) == started


def test_it_ends_when_told_to(no_cache):
    process = Helper()
    process.tell(SIZES)
    assert process.at_work()
    process.end()
    assert not process.at_work()
    process.end()


def test_one_that_died_can_be_told_anything(no_cache):
    process = Helper()
    process._process.kill()
    wait_until(lambda: not process.at_work())
    process.tell(SIZES)
    process.end()


def test_it_ends_with_the_process_that_started_it(no_cache):
    script = "from sgframe_cpu.compiling import Helper; print(Helper()._process.pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:
        pid = int(parent.stdout.readline())
        assert not is_gone(pid)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: is_gone(pid))


def test_it_is_told_the_sizes_of_the_model(monkeypatch):
    fake, spec = Fake(), ExecutorSpec(Checkpoint("tiny", "", 256, 64, ()), "bfloat16", max_rows=1, max_step_tokens=1)
    config = SimpleNamespace(head_dim=16, hidden_size=32, intermediate_size=48)
    monkeypatch.setattr(executor, "read_config", lambda folder: config)
    monkeypatch.setattr(TorchExecutor, "load", lambda *_: LOADED)
    CpuExecutor(SETTINGS, fake).load(spec, lambda *_: None)
    assert fake.told == [SIZES]


def test_one_rank_of_a_machine_keeps_it(monkeypatch):
    monkeypatch.setattr(TorchExecutor, "join", lambda *_: None)
    for rank, ended in ((0, False), (1, True)):
        fake = Fake()
        CpuExecutor(SETTINGS, fake).join(Ranks(rank, 2), lambda reason: None)
        assert fake.ended is ended


def test_an_executor_that_is_closed_ends_it():
    fake = Fake()
    CpuExecutor(SETTINGS, fake).close()
    assert fake.ended


def test_torch_draws_while_it_is_at_work_and_the_kernel_afterwards(monkeypatch):
    fake = Fake(working=True)
    ops, logits = NumbaCpuOps(SETTINGS, fake), torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(ops._sampling, "choose", lambda *_: "the kernel's")
    assert ops.choose(logits, None, DRAWS).equal(TorchCpuOps(SETTINGS).choose(logits, None, DRAWS))
    assert ops.choose(logits, None, None) == "the kernel's"
    fake.working = False
    assert ops.choose(logits, None, DRAWS) == "the kernel's"
