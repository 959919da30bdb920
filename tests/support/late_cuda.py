"""``torch.cuda`` on the processor, whose copies happen as late as a device may do them.

A tensor "on cuda" is one in the processor's memory. What is computed is computed at once; but a copy that nobody has to
wait for is done only when somebody waits for it, and its target is full of rubbish until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

TOTAL = 80 * 2**30
RUBBISH = 0x7F


class LateStream(torch.Stream):
    """``waiting`` are copies that it has been given and not done yet."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    def __new__(cls, *_: Any) -> LateStream:
        return super().__new__(cls, device="cpu")

    def __init__(self, *_: Any) -> None:
        self.waiting: list[Callable[[], Any]] = []
        self.waited_for: list[LateStream] = []

    def wait_stream(self, other: LateStream) -> None:
        self.waited_for.append(other)
        other.catch_up()

    def catch_up(self) -> None:
        with torch.inference_mode():  # in which some of the copies' targets were made
            while self.waiting:
                self.waiting.pop(0)()


class LateEvent:
    """Comes to pass when somebody waits for it."""

    stream: LateStream | None = None

    def record(self, stream: LateStream | None = None) -> None:
        self.stream = stream or LateCuda.current.computing

    def query(self) -> bool:
        return self.stream is None or not self.stream.waiting

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.catch_up()


class LateCuda(TorchFunctionMode):
    """A GPU or several. ``uploads`` are the streams of copies to it; ``shared`` those told of memory that is another's."""

    current: LateCuda

    def __init__(self, free: int = 60 * 2**30, devices: int = 1) -> None:
        super().__init__()
        self.computing = LateStream()
        self.streams = [self.computing]
        self.free, self.devices = free, devices
        self.uploads: list[LateStream] = []
        self.shared: list[LateStream] = []
        LateCuda.current = self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        pinned = kwargs.pop("pin_memory", False)
        if func is Tensor.record_stream:
            return self.shared.append(args[1])
        if func is Tensor.pin_memory:
            func, pinned = Tensor.clone, True
        if func is Tensor.to and kwargs.get("non_blocking") and _is_cuda(args[1]):
            return self._upload(args[0])
        if func is Tensor.copy_ and kwargs.get("non_blocking"):
            return self._download(*args)
        args, kwargs = tuple(map(_on_cpu, args)), {name: _on_cpu(value) for name, value in kwargs.items()}
        made = func(*args, **kwargs)
        if pinned:
            made.pinned = True
        return made

    def _upload(self, host: Tensor) -> Tensor:
        assert host.pinned, "a copy from pageable memory blocks"
        self.uploads.append(self.streams[-1])
        if self.streams[-1] is self.computing:
            return host.clone()
        target = torch.empty_like(host)
        target.view(torch.uint8).fill_(RUBBISH)
        self.streams[-1].waiting.append(lambda: target.copy_(host))
        return target

    def _download(self, host: Tensor, source: Tensor) -> Tensor:
        assert host.pinned, "a copy to pageable memory blocks"
        source = source.clone()  # as it is in the order of the stream, whatever comes after
        host.view(torch.uint8).fill_(RUBBISH)
        self.streams[-1].waiting.append(lambda: host.copy_(source))
        return host

    @contextmanager
    def stream(self, stream: LateStream) -> Iterator[None]:
        self.streams.append(stream)
        yield
        self.streams.pop()

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have ``torch.cuda`` be this."""
        fakes: dict[str, Any] = {
            "Stream": LateStream,
            "Event": LateEvent,
            "stream": self.stream,
            "current_stream": lambda device=None: self.streams[-1],
            "device_count": lambda: self.devices,
            "set_device": lambda device: None,
            "empty_cache": lambda: None,
            "mem_get_info": lambda device=None: (self.free, TOTAL),
            "memory_reserved": lambda device=None: 0,
            "graph_pool_handle": lambda: (0, 1),
            "get_device_capability": lambda device=None: (9, 0),
            "get_device_properties": lambda device=None: SimpleNamespace(multi_processor_count=4, major=9, minor=0),
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)


def _is_cuda(value: Any) -> bool:
    return isinstance(value, torch.device) and value.type == "cuda"


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if _is_cuda(value) else value
