"""The cpu backend's probe: what it says of this machine and others, without torch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sgframe_cpu import CpuSettings, memory
from sgframe_cpu.backend import CpuBackend

MEMINFO = "MemTotal:       24000000 kB\nMemFree:          100000 kB\nMemAvailable:    2000000 kB\n"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """``machine(flags, limit, current)``: pretend to run on it; its control group is unlimited unless told."""

    def pretend(flags="fpu avx2", limit="max", current="0"):
        for name, text in {"meminfo": MEMINFO, "cpuinfo": f"processor\t: 0\nflags\t\t: {flags}\n"}.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "memory.max").write_text(limit + "\n")
        (tmp_path / "memory.current").write_text(current + "\n")
        monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
        monkeypatch.setattr(memory, "CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(memory, "CGROUP", tmp_path)

    return pretend


def probe():
    return CpuBackend(CpuSettings()).probe()


def test_memory_is_what_the_kernel_calls_available(machine):
    machine()
    assert probe().memory_bytes == 2_000_000 * 1024


def test_a_container_plans_within_its_limit(machine):
    machine(limit="1000000000", current="300000000")
    assert probe().memory_bytes == 700_000_000


def test_a_process_with_a_limit_of_its_own_plans_within_that(machine, monkeypatch, tmp_path):
    machine()
    (tmp_path / "statm").write_text("1000 500 100 1 0 400 0\n")
    monkeypatch.setattr(memory, "STATM", tmp_path / "statm")
    monkeypatch.setattr(memory.resource, "getrlimit", lambda which: (10**9, 10**9))
    assert probe().memory_bytes == 10**9 - 1000 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16"])
def test_bfloat16_is_preferred_where_the_processor_has_it(machine, flag):
    machine(flags=f"fpu {flag} avx2")
    assert probe().dtypes == ("bfloat16", "float32")


def test_float32_is_preferred_elsewhere(machine):
    machine()
    assert probe().dtypes == ("float32", "bfloat16")


def test_missing_package_makes_it_unusable_with_the_remedy(monkeypatch):
    monkeypatch.setattr("sgframe_cpu.backend.find_spec", lambda name: None if name == "numba" else object())
    capabilities = probe()
    assert not capabilities.usable
    assert "numba" in capabilities.reason
    assert "install" in capabilities.reason


def test_probing_loads_neither_torch_nor_numba():
    code = (
        "import sys; from sgframe_cpu import CpuSettings; from sgframe_cpu.backend import CpuBackend;"
        "assert CpuBackend(CpuSettings()).probe().usable; assert not {'torch', 'numba', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
