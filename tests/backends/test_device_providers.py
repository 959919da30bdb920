"""The cuda and ascend backends: what they find on a machine, and what they say of it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from sgframe.errors import BackendUnavailable
from sgframe.testing.plugin import check_plugin
from sgframe_ascend import AscendSettings
from sgframe_ascend import backend as ascend
from sgframe_ascend.machine import find_npus
from sgframe_ascend.software import missing_software as missing_for_ascend
from sgframe_cuda import CudaSettings
from sgframe_cuda import backend as cuda
from sgframe_cuda.driver import Device, Driver, DriverFault, read_driver
from sgframe_cuda.software import missing_software, torch_build


class FakeDriver:
    """libcuda.so.1 with the given devices; ``init`` is what cuInit gives. Handles are 70, 71 …"""

    def __init__(self, *devices: Device, init: int = 0) -> None:
        self._devices = devices
        self._init = init

    def cuInit(self, flags: int) -> int:
        return self._init

    def cuDriverGetVersion(self, out: Any) -> int:
        return write(out, 12080)

    def cuDeviceGetCount(self, out: Any) -> int:
        return write(out, len(self._devices))

    def cuDeviceGet(self, out: Any, index: int) -> int:
        return write(out, 70 + index)

    def cuDeviceGetName(self, buffer: Any, size: int, handle: int) -> int:
        buffer.value = self._devices[handle - 70].name.encode()
        return 0

    def cuDeviceTotalMem_v2(self, out: Any, handle: int) -> int:
        return write(out, self._devices[handle - 70].memory_bytes)

    def cuDeviceGetAttribute(self, out: Any, attribute: int, handle: int) -> int:
        return write(out, self._devices[handle - 70].capability[{75: 0, 76: 1}[attribute]])

    def cuGetErrorString(self, status: int, out: Any) -> int:
        return write(out, b"initialization error")


def write(out: Any, value: Any) -> int:
    """Write through a ctypes.byref, as the driver does through a pointer."""
    out._obj.value = value
    return 0


H200 = Device("NVIDIA H200", 150_000_000_000, (9, 0))
H100 = Device("NVIDIA H100", 80_000_000_000, (9, 0))
T4 = Device("Tesla T4", 16_000_000_000, (7, 5))


def opening(library: FakeDriver) -> Any:
    return lambda name: library


def missing_library(name: str) -> ctypes.CDLL:
    raise OSError(f"{name}: cannot open shared object file")


@pytest.mark.parametrize("module", ["sgframe_cuda", "sgframe_ascend"])
def test_the_hook_module_is_sound(module: str) -> None:
    assert check_plugin(module) == []


@pytest.mark.parametrize("module", ["sgframe_cuda", "sgframe_ascend"])
def test_a_probe_does_not_load_torch(module: str) -> None:
    code = (
        f"import sys, {module}; from sgframe.assembly.choice import load\n"
        f"(offer,) = {module}.sgframe_backends()\n"
        "load(offer.target)(offer.settings()).probe(); print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "False", run.stderr


# -------------------------------------------------------------------------------------------------------- cuda


def test_the_driver_tells_its_version_and_devices() -> None:
    assert read_driver(opening(FakeDriver(H200, T4))) == Driver("12.8", (H200, T4))


def test_no_driver_is_told_with_the_remedy() -> None:
    with pytest.raises(DriverFault, match=r"no NVIDIA driver was found \(libcuda.so.1: cannot open.*--gpus all"):
        read_driver(missing_library)


@pytest.mark.parametrize("library", [FakeDriver(), FakeDriver(init=100)])
def test_a_driver_without_a_device_is_told(library: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(DriverFault, match="shows no GPU; see nvidia-smi"):
        read_driver(opening(library))


def test_hidden_devices_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(DriverFault, match="CUDA_VISIBLE_DEVICES is '', which may hide it"):
        read_driver(opening(FakeDriver()))


def test_a_driver_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(DriverFault, match="cuInit gave 3, initialization error; see whether nvidia-smi works"):
        read_driver(opening(FakeDriver(H200, init=3)))


CPU_BUILD = (
    "from typing import Optional\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"
)
CUDA_BUILD = CPU_BUILD.replace("+cpu", "+cu128").replace("cuda: Optional[str] = None", "cuda: Optional[str] = '12.8'")


def test_the_build_of_torch_is_read_from_its_files() -> None:
    assert torch_build(CPU_BUILD) == ("2.13.0+cpu", "")
    assert torch_build(CUDA_BUILD) == ("2.13.0+cu128", "12.8")


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, **version_files: str) -> None:
    """Have find_spec find only these modules, each with its version.py."""

    def find_spec(name: str) -> ModuleSpec | None:
        if name not in version_files:
            return None
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "version.py").write_text(version_files[name])
        return ModuleSpec(name, None, origin=str(folder / name / "__init__.py"))

    monkeypatch.setattr("sgframe_cuda.software.find_spec", find_spec)


def test_missing_software_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path)
    assert missing_software("12.8") == [
        "torch is not installed; install its build for CUDA 12.x or older",
        "triton is not installed (pip install triton)",
    ]
    install(monkeypatch, tmp_path, torch=CPU_BUILD, triton="")
    assert missing_software("12.8") == [
        "torch 2.13.0+cpu is built without CUDA; install its build for CUDA 12.x or older"
    ]
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    assert missing_software("12.8") == []


@pytest.mark.parametrize("driver", ["12.2", "12.8", "13.0"])
def test_a_driver_runs_every_cuda_of_its_first_number_and_older_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: str
) -> None:
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    assert missing_software(driver) == []


def test_a_driver_that_is_too_old_for_torch_is_told_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    assert missing_software("11.8") == [
        "the NVIDIA driver is too old: torch 2.13.0+cu128 is built for CUDA 12.8, the driver runs CUDA up to 11.8; update "
        "the driver, or install torch's build for CUDA 11.x or older"
    ]


def test_flashinfer_is_missed_only_where_it_is_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    assert missing_software("12.8", "torch") == []
    assert missing_software("12.8", "flashinfer") == [
        "attention is set to 'flashinfer', which is not installed (pip install flashinfer-python, or set attention to "
        "'triton')"
    ]
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="", flashinfer="")
    assert missing_software("12.8", "flashinfer") == []


def test_cuda_without_a_driver_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "read_driver", lambda: read_driver(missing_library))
    backend = cuda.CudaBackend(CudaSettings())
    assert not backend.probe().usable
    with pytest.raises(BackendUnavailable, match="backend 'cuda' cannot run: no NVIDIA driver was found"):
        backend.executor()


def test_cuda_with_devices_and_software_is_usable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    monkeypatch.setattr(cuda, "read_driver", lambda: Driver("12.8", (H200, H100)))
    found = cuda.CudaBackend(CudaSettings()).probe()
    assert (found.usable, found.reason) == (True, "")
    assert found.device == "NVIDIA H200 (compute capability 9.0, driver for CUDA 12.8)"
    assert (found.memory_bytes, found.max_ranks) == (80_000_000_000, 2)
    assert (found.dtypes, found.page_size) == (("bfloat16", "float16", "float32"), 1)


def test_everything_that_cuda_misses_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, torch=CPU_BUILD)
    monkeypatch.setattr(cuda, "read_driver", lambda: Driver("12.8", (H200, T4)))
    found = cuda.CudaBackend(CudaSettings(attention="flashinfer")).probe()
    assert not found.usable
    assert [fault.split(",")[0] for fault in found.reason.split("; ")] == [
        "GPU 1",
        "hide it by CUDA_VISIBLE_DEVICES if there is another",
        "torch 2.13.0+cpu is built without CUDA",
        "install its build for CUDA 12.x or older",
        "triton is not installed (pip install triton)",
        "attention is set to 'flashinfer'",
    ]


def test_a_gpu_older_than_ampere_is_refused_with_its_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, torch=CUDA_BUILD, triton="")
    monkeypatch.setattr(cuda, "read_driver", lambda: Driver("12.8", (T4,)))
    assert cuda.CudaBackend(CudaSettings()).probe().reason == (
        "GPU 0, Tesla T4, has compute capability 7.5, needed is 8.0 (Ampere) or newer; hide it by CUDA_VISIBLE_DEVICES if "
        "there is another"
    )


# ------------------------------------------------------------------------------------------------------ ascend


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """A folder with the device files of three NPUs; a container may have been given any of its machine's."""
    for name in ("davinci0", "davinci10", "davinci2", "davinci_manager", "null"):
        (tmp_path / name).touch()
    return tmp_path


def test_npus_are_counted_by_their_device_files_and_numbered_from_0(devices: Path) -> None:
    assert find_npus(devices, {}) == ((0, 1, 2), "")


@pytest.mark.parametrize(
    ("listed", "visible"),
    [("0,2", (0, 2)), ("1", (1,)), ("1,2,3", (1, 2)), ("0,1;2", (0, 1)), ("0,,2", (0,)), ("0, 1", (0,))],
)
def test_npus_are_chosen_by_number(devices: Path, listed: str, visible: tuple[int, ...]) -> None:
    assert find_npus(devices, {"ASCEND_RT_VISIBLE_DEVICES": listed}) == (visible, "")


@pytest.mark.parametrize("listed", ["", "3", "10", "2,1", "1,1", "npu0"])
def test_a_choice_that_leaves_no_npu_is_told(devices: Path, listed: str) -> None:
    assert find_npus(devices, {"ASCEND_RT_VISIBLE_DEVICES": listed}) == (
        (),
        f"ASCEND_RT_VISIBLE_DEVICES is {listed!r}, which shows none of the 3 NPUs (count them from 0, ascending)",
    )


@pytest.mark.parametrize("environment", [{}, {"ASCEND_RT_VISIBLE_DEVICES": "0"}])
def test_a_machine_without_npus_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    assert find_npus(tmp_path, environment) == (
        (),
        "no NPU: no /dev/davinci0 … (install the driver, or give the container its devices)",
    )


CANN = {"ASCEND_HOME_PATH": "/"}


def install_torch_npu(monkeypatch: pytest.MonkeyPatch, folder: Path, *, torch: str, needs: str = "") -> None:
    """Put torch_npu 2.13.0 where Python finds it, and what pip knows of it and of ``torch``, a version."""
    (folder / "torch_npu").mkdir()
    for name, version, line in (("torch_npu", "2.13.0", needs), ("torch", torch, "")):
        information = folder / f"{name}-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{line}\n")
    monkeypatch.syspath_prepend(folder)


def test_what_ascend_misses_is_told_with_the_remedy() -> None:
    assert missing_for_ascend({}) == [
        "CANN is not set up (source its set_env.sh)",
        "torch_npu is not installed (pip install 'sgframe[ascend]')",
    ]
    assert missing_for_ascend({"ASCEND_TOOLKIT_HOME": "/nowhere"})[0] == (
        "CANN is not in /nowhere (source its set_env.sh)"
    )


@pytest.mark.parametrize(
    ("torch", "needs"),
    [
        ("2.13.0", "Requires-Dist: torch==2.13.0.*"),
        ("2.13.0+cpu", "Requires-Dist: torch==2.13.0.*"),
        ("2.13.0.dev1", "Requires-Dist: torch==2.13.0.*"),
        ("2.12.1", ""),
    ],
)
def test_a_torch_npu_that_is_for_this_torch_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, torch: str, needs: str
) -> None:
    install_torch_npu(monkeypatch, tmp_path, torch=torch, needs=needs)
    assert missing_for_ascend(CANN) == []


def test_a_torch_npu_that_is_for_another_torch_is_told_with_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install_torch_npu(monkeypatch, tmp_path, torch="2.12.1", needs="Requires-Dist: torch==2.13.0.*")
    assert missing_for_ascend(CANN) == [
        "torch_npu 2.13.0 needs torch==2.13.0.*, found is torch 2.12.1 (install the two that belong together)"
    ]


@pytest.fixture
def ascend_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two NPUs, with all that an executor stands on."""
    monkeypatch.setattr(ascend, "find_npus", lambda: ((0, 1), ""))
    monkeypatch.setattr(ascend, "missing_software", list)


@pytest.fixture
def _torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop whoever goes on to what imports torch."""
    monkeypatch.setitem(sys.modules, "sgframe_ascend.executor", None)


@pytest.mark.usefixtures("ascend_machine", "_torch_is_not_imported")
def test_a_torch_npu_that_does_not_load_is_told_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> ModuleType:
        raise ImportError("libhccl.so: cannot open shared object file")

    monkeypatch.setattr("sgframe_ascend.software.import_module", fail)
    with pytest.raises(BackendUnavailable, match=r"does not load \(ImportError: libhccl.so: cannot open .*set_env.sh"):
        ascend.AscendBackend(AscendSettings()).executor()


@pytest.mark.usefixtures("ascend_machine", "_torch_is_not_imported")
def test_a_torch_npu_that_registers_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_ascend.software.import_module", ModuleType)
    with pytest.raises(BackendUnavailable, match=r"<module 'torch_npu'> has no npu, npu_add_rms_norm, .*2.13 or newer"):
        ascend.AscendBackend(AscendSettings()).executor()


def test_ascend_without_an_npu_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascend, "find_npus", lambda: ((), "no NPU"))
    monkeypatch.setattr(ascend, "missing_software", lambda: ["torch_npu is not installed"])
    backend = ascend.AscendBackend(AscendSettings())
    found = backend.probe()
    assert not found.usable
    assert found.reason == "no NPU; torch_npu is not installed"
    with pytest.raises(BackendUnavailable, match="backend 'ascend' cannot run: no NPU; torch_npu is not"):
        backend.executor()


@pytest.mark.usefixtures("ascend_machine")
def test_ascend_with_npus_is_usable_a_rank_a_device() -> None:
    found = ascend.AscendBackend(AscendSettings()).probe()
    assert (found.usable, found.reason) == (True, "")
    assert (found.device, found.max_ranks, found.page_size) == ("Ascend NPU 0, 1", 2, 128)
    assert found.dtypes == ("bfloat16", "float16", "float32")


@pytest.mark.usefixtures("ascend_machine")
def test_ascend_announces_the_page_size_that_is_set() -> None:
    assert ascend.AscendBackend(AscendSettings(page_size=256)).probe().page_size == 256


@pytest.mark.parametrize("page_size", [0, 8, 100, 528])
def test_ascend_refuses_pages_that_its_operators_do_not_take(page_size: int) -> None:
    with pytest.raises(ValidationError, match="page_size"):
        AscendSettings(page_size=page_size)
