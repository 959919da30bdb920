"""Real servers for tests: ``sgframe serve`` in a process of its own, on a free port, ended by its id."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil

SIMULATED = ("--backend", "simulated", "--source", "simulated", "--model", "simulated")
START_TIMEOUT = 90.0


class Server:
    """A running ``sgframe serve``. ``output`` is all it has printed so far."""

    def __init__(self, arguments: Sequence[str], folder: Path, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sgframe", "serve", "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TMPDIR": str(folder),  # the engine's private folder lies here, where the test can see what is left
                **(environ or {}),
            },
            start_new_session=True,
        )
        self.url = ""

    @property
    def output(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def wait_until_ready(self, timeout: float = START_TIMEOUT) -> None:
        wait_for(lambda: "sgframe is ready" in self.output or self.process.poll() is not None, timeout)
        match = re.search(r"on (http://\S+)", self.output)
        assert match, f"the server did not start:\n{self.output}"
        self.url = match[1]

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60.0, **options)  # type: ignore[arg-type]

    def children(self) -> dict[str, psutil.Process]:
        """The engine's child processes by their name in ``ps``: scheduler, worker-0."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            title = " ".join(child.cmdline())
            if title.startswith("sgframe::"):
                found[title.split("::")[1].split()[0]] = child
        return found

    def private_folders(self) -> list[Path]:
        return list(self.folder.glob("sgframe-*"))

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 20.0) -> int:
        """Send ``signum`` and wait; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        return self.process.wait(timeout)

    def close(self) -> None:
        tree = [self.process.pid]
        with suppress(psutil.NoSuchProcess):
            tree += [child.pid for child in psutil.Process(self.process.pid).children(recursive=True)]
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            for pid in tree:
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
        finally:
            self._log.close()


@contextmanager
def served(
    *arguments: str, environ: dict[str, str] | None = None, start_timeout: float = START_TIMEOUT
) -> Iterator[Server]:
    """A ready server with ``arguments``, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="srv") as folder:
        server = Server(arguments, Path(folder), environ)
        try:
            server.wait_until_ready(start_timeout)
            yield server
        finally:
            server.close()


def wait_for(condition: Callable[[], object], timeout: float, what: str = "") -> None:
    """Poll until ``condition`` holds; fails the test after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what or 'it'} did not happen within {timeout:g} s"
        time.sleep(0.02)
