"""A double of ``torch_npu.npu``: devices, their memory, streams and events. It computes at once; what it remembers shows
whether a real one could have been asked the same in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

GIB = 2**30
DEVICES = 4

_library = torch.library.Library("aten", "IMPL")
_kept: list[tuple[int, torch.Stream]] = []


def _record_stream(tensor: Tensor, stream: torch.Stream) -> None:
    _kept.append((tensor.data_ptr(), stream))


_library.impl("record_stream", _record_stream, "CPU")  # which torch has for devices with streams only


class Stream(torch.Stream):
    """One that is equal to itself alone."""

    _ids = count(1)

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        return super().__new__(cls, stream_id=next(cls._ids), device_index=0, device_type=0)  # type: ignore[no-any-return]


class Event:
    """What was recorded is done once somebody has waited for it: the device of the double never hurries."""

    _recorded = _waited = False

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        return super().__new__(cls)

    def record(self, stream: Any = None) -> None:
        self._recorded = True

    def query(self) -> bool:
        return self._recorded and self._waited

    def synchronize(self) -> None:
        assert self._recorded, "an event that nobody recorded is waited for"
        self._waited = True


class Device(ModuleType):
    """4 devices of 64 GiB, of which torch's allocator keeps 3 that it does not need and 2 that it does, and others have 11.

    Remembers the devices that were ``chosen``, and memory that was ``kept`` for a stream: its address, and that stream.
    """

    Event = Event
    Stream = Stream

    def __init__(self) -> None:
        super().__init__("torch_npu.npu")
        self.chosen: list[int] = []
        self.kept = _kept
        self.kept.clear()
        self._spare = 3 * GIB
        self._current = Stream()

    def device_count(self) -> int:
        return DEVICES

    def set_device(self, device: int) -> None:
        if device >= DEVICES:
            raise RuntimeError("invalid device")
        self.chosen.append(device)

    def current_stream(self, device: Any = None) -> Stream:
        return self._current

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    def empty_cache(self) -> None:
        self._spare = 0

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        return 64 * GIB - 11 * GIB - self.memory_reserved(), 64 * GIB

    def memory_reserved(self, device: Any = None) -> int:
        return 2 * GIB + self._spare
