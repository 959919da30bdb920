"""What the NVIDIA driver says of this machine: version and devices. Asks it by ctypes: no torch, no context on a device."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libcuda.so.1"
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


class DriverFault(Exception):
    """The driver is absent or of no use; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU; ``capability`` is its compute capability, such as (9, 0)."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Driver:
    """``cuda_version`` is the newest CUDA that the driver runs, such as ``12.8``. ``devices`` are those it shows us."""

    cuda_version: str
    devices: tuple[Device, ...]


def read_driver(open_library: Callable[[str], Any] = ctypes.CDLL) -> Driver:
    """Ask the driver. Raises DriverFault when there is none, or it shows no device."""
    try:
        library = open_library(_LIBRARY)
    except OSError as error:
        raise DriverFault(
            f"no NVIDIA driver was found ({error}); install it, or give the container its GPUs (docker run --gpus all)"
        ) from None
    _call(library, "cuInit", 0)
    version = _integer(library, "cuDriverGetVersion")
    devices = tuple(_device(library, index) for index in range(_integer(library, "cuDeviceGetCount")))
    if not devices:
        raise _no_device()
    return Driver(f"{version // 1000}.{version % 1000 // 10}", devices)


def _device(library: Any, index: int) -> Device:
    handle = _integer(library, "cuDeviceGet", index)
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    _call(library, "cuDeviceGetName", name, 256, handle)
    _call(library, "cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
    major = _integer(library, "cuDeviceGetAttribute", _CAPABILITY_MAJOR, handle)
    minor = _integer(library, "cuDeviceGetAttribute", _CAPABILITY_MINOR, handle)
    return Device(name.value.decode(), memory.value, (major, minor))


def _integer(library: Any, function: str, *arguments: int) -> int:
    """Call a function that writes an int to its first argument."""
    value = ctypes.c_int()
    _call(library, function, ctypes.byref(value), *arguments)
    return value.value


def _call(library: Any, function: str, *arguments: Any) -> None:
    status = getattr(library, function)(*arguments)
    if status == _NO_DEVICE:
        raise _no_device()
    if status:
        text = ctypes.c_char_p()
        library.cuGetErrorString(status, ctypes.byref(text))
        raise DriverFault(
            f"the NVIDIA driver failed: {function} gave {status}, {(text.value or b'unknown error').decode()}; see whether "
            "nvidia-smi works, and whether the driver was updated without a restart"
        )


def _no_device() -> DriverFault:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hint = "see nvidia-smi" if visible is None else f"CUDA_VISIBLE_DEVICES is {visible!r}, which may hide it"
    return DriverFault(f"the NVIDIA driver shows no GPU; {hint}")
