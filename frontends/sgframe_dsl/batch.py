"""Many runs of one program: so many at a time, in threads or in an event loop, with a bar. Knows not what is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

CONCURRENCY = 64
"""Runs at a time, unless said."""

Advance = Callable[[bool], None]
"""One more is done; whether it failed."""


def arguments(item: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """An item as a program's arguments: those of a dict by name, those of a tuple by place, anything else alone."""
    match item:
        case Mapping():
            return (), dict(item)
        case tuple():
            return item, {}
        case _:
            return (item,), {}


def check_concurrency(concurrency: object) -> None:
    """Raise TypeError or ValueError unless it is a positive int."""
    if not isinstance(concurrency, int) or isinstance(concurrency, bool):
        raise TypeError(f"concurrency is a number of runs, found {concurrency!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, found {concurrency}")


def in_threads(jobs: Sequence[Callable[[], None]], concurrency: int, stop: Callable[[], None]) -> None:
    """Do all ``jobs``. When interrupted, ``stop`` is to end those that run; the others are not begun."""
    if not jobs:
        return
    with ThreadPoolExecutor(min(concurrency, len(jobs)), "sgframe::program") as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


async def in_loop(jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]], concurrency: int) -> None:
    """Do all ``jobs`` in this event loop. When it is cancelled, so are they."""
    gate = asyncio.Semaphore(concurrency)

    async def one(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with gate:
            await job()

    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(one(job))


@contextmanager
def progress_bar(name: str, total: int, shown: bool) -> Iterator[Advance]:
    """A bar on standard error while it is open, if ``shown``; what it gives may be called from any thread."""
    if not shown:
        yield lambda failed: None
        return
    from rich.console import Console  # noqa: PLC0415  # most programs show no bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    failures = TextColumn("{task.fields[failed]} failed")
    with Progress(*columns, failures, console=Console(stderr=True)) as bars:
        bar = bars.add_task(name, total=total, failed=0)
        yield lambda failed: bars.update(bar, advance=1, failed=bars.tasks[0].fields["failed"] + failed)
