"""Watches the worker of a running server by py-spy while a row drives it. Knows no kinds of stacks."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import psutil  # type: ignore[import-untyped]
from drive.meeting import measure_texts, meet
from drive.outcome import Target
from drive.rows import Row, warm_up
from drive.server import Running

from profiles import CannotProfile

WORKER = "sgframe::worker-0"
"""What the process calls itself."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What py-spy recorded while requests brought so many output tokens per second."""

    stacks: str
    tokens_per_second: float


def check_py_spy() -> None:
    """Raises CannotProfile where it is not installed."""
    if shutil.which("py-spy") is None:
        raise CannotProfile("py-spy is not on the path: pip install py-spy")


def worker_of(server: Running) -> psutil.Process:
    """The process of the server that computes. Raises CannotProfile."""
    children = server.process.children(recursive=True)
    names = [" ".join(child.cmdline()).strip() for child in children]
    found = [child for child, name in zip(children, names, strict=True) if name == WORKER]
    if len(found) != 1:
        raise CannotProfile(f"looked for one process {WORKER} of the server, found {len(found)} among {names}")
    return found[0]


def ready(url: str, rows: list[Row], seed: str) -> Target:
    """The server, once it has answered a burst of each shape of ``rows``."""
    endpoint = asyncio.run(meet(url, None, "The quick brown fox", chat=False))
    maker = asyncio.run(measure_texts(endpoint, chat=False))
    asyncio.run(warm_up(endpoint, rows, maker, seed))
    return Target(endpoint, maker, seed, ours=True)


def watch(process: psutil.Process, row: Row, target: Target, seconds: int, hertz: int) -> Watched:
    """As many requests as ``row`` has at once, again and again, until py-spy has looked ``hertz`` times a second for
    ``seconds``. Raises CannotProfile."""
    row = replace(row, conversations=row.concurrency)
    tokens, start, random = 0, time.perf_counter(), Random(target.seed)
    with tempfile.TemporaryDirectory() as folder, _spying(process, seconds, hertz, Path(folder) / "stacks") as spy:
        while spy.poll() is None:
            tokens += row.run(Target(target.endpoint, target.maker, str(random.random()), ours=True)).output_tokens
        rate = tokens / (time.perf_counter() - start)
        _, told = spy.communicate()
        if spy.returncode:
            raise CannotProfile(f"py-spy ended with code {spy.returncode}: {told.strip()}")
        return Watched((Path(folder) / "stacks").read_text(), rate)


@contextmanager
def _spying(process: psutil.Process, seconds: int, hertz: int, output: Path) -> Iterator[subprocess.Popen[str]]:
    how = ["--native", "--threads", "--idle", "--format", "raw", "--rate", str(hertz), "--duration", str(seconds)]
    command = ["py-spy", "record", *how, "--output", str(output), "--pid", str(process.pid)]
    spy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield spy
    finally:
        spy.kill()
        spy.wait()
