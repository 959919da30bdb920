"""Progress of downloads and loading on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import logging
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

log = logging.getLogger(__name__)

LINE_EVERY = 0.25
"""Share of the whole between two lines where there is no terminal."""


class ProgressDisplay:
    """Call it with (what, done, total) in bytes, from any thread; total 0 means unknown."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._shares: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._console.is_terminal:
            task = self._tasks.get(what)
            if task is None:
                task = self._tasks[what] = self._bars.add_task(what, total=None)
            self._bars.update(task, completed=done, total=total or None)
            return
        share = done / total if total else 0.0
        if what not in self._shares or share - self._shares[what] >= LINE_EVERY or (done == total > 0):
            if self._shares.get(what) != share:
                log.info("%s%s", what, f": {done / 2**20:.0f} of {total / 2**20:.0f} MiB" if total else "")
            self._shares[what] = share

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()
