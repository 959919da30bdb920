"""The ``watched`` backend: hands everything on, and looks at the device's time line for some steps."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from device.gaps import Interval, idle_seconds
from device.watched import WatchedSettings
from sgframe.interfaces.backend import Backend, Capabilities, Executor, ExecutorSpec, Pending
from sgframe.messages import Loaded, Masks, ScheduleBatch
from sgframe_cpu import CpuSettings
from sgframe_cpu.backend import CpuBackend
from sgframe_cuda import CudaSettings
from sgframe_cuda.backend import CudaBackend


class TimeLine(Protocol):
    """When a device worked."""

    def start(self) -> None: ...

    def work(self, run: Callable[[], None]) -> None:
        """Do something that belongs to a step."""

    def stop(self) -> list[Interval]:
        """The intervals since ``start`` in which it worked."""


class HostTimeLine:
    """That of a device whose work is done when a call returns."""

    def start(self) -> None:
        self._busy: list[Interval] = []

    def work(self, run: Callable[[], None]) -> None:
        began = time.perf_counter()
        run()
        self._busy.append((began, time.perf_counter()))

    def stop(self) -> list[Interval]:
        return self._busy


class CudaTimeLine:
    """That of a GPU, by torch's profiler: every kernel and copy, those in graphs too."""

    def start(self) -> None:
        import torch  # noqa: PLC0415 (the front reads this module's neighbours)

        torch.cuda.synchronize()
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self._profile.start()

    def work(self, run: Callable[[], None]) -> None:
        run()

    def stop(self) -> list[Interval]:
        import torch  # noqa: PLC0415

        torch.cuda.synchronize()
        self._profile.stop()
        return [
            (event.time_range.start / 1e6, event.time_range.end / 1e6)
            for event in self._profile.events()
            if event.device_type.name == "CUDA"
        ]


class WatchedExecutor(Executor):
    """Watches ``steps`` steps that decode the same number of rows, once ``skip`` of them have gone by; each number once, and
    none before it may begin."""

    def __init__(self, inner: Executor, line: TimeLine, settings: WatchedSettings) -> None:
        self._inner, self._line, self._settings = inner, line, settings
        self._rows = self._seen = 0
        self._begun = self._watching = False
        self._known: set[int] = set()

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        return self._inner.load(spec, progress)

    def forward(self, batch: ScheduleBatch) -> None:
        self._count(batch)
        if self._watching:
            self._line.work(lambda: self._inner.forward(batch))
        else:
            self._inner.forward(batch)

    def sample(self, masks: Masks | None) -> Pending:
        if not self._watching:
            return self._inner.sample(masks)
        pending: list[Pending] = []
        self._line.work(lambda: pending.append(self._inner.sample(masks)))
        return pending[0]

    def close(self) -> None:
        self._inner.close()

    def _count(self, batch: ScheduleBatch) -> None:
        """Start or stop to watch, if it is time."""
        self._begun = self._begun or Path(self._settings.begin).exists()
        if not self._begun:
            return
        rows = len(batch.rows) if set(batch.counts) == {1} else 0
        if rows != self._rows:
            if self._watching:
                self._line.stop()  # what came in between makes it of no use
            self._rows, self._seen, self._watching = rows, 0, False
        self._seen += 1
        if not rows or rows in self._known:
            return
        if self._watching and self._seen == self._settings.skip + self._settings.steps:
            self._watching = False
            self._known.add(rows)
            self._note(rows, self._line.stop())
        elif self._seen == self._settings.skip:
            self._line.start()
            self._watching = True

    def _note(self, rows: int, busy: list[Interval]) -> None:
        idle = idle_seconds(busy, self._settings.steps) if busy else None
        with Path(self._settings.file).open("a") as file:
            file.write(json.dumps({"rows": rows, "pieces": len(busy), "idle": idle}) + "\n")


class WatchedBackend(Backend):
    """See Backend."""

    def __init__(self, settings: WatchedSettings) -> None:
        self._settings = settings
        self._inner: Backend = CpuBackend(CpuSettings()) if settings.device == "cpu" else CudaBackend(CudaSettings())

    def probe(self) -> Capabilities:
        return self._inner.probe()

    def executor(self) -> Executor:
        line = HostTimeLine() if self._settings.device == "cpu" else CudaTimeLine()
        return WatchedExecutor(self._inner.executor(), line, self._settings)
