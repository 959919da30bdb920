"""A server that the benchmark starts and ends itself. Knows its command and its address, not what it serves."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import psutil  # type: ignore[import-untyped]

START_TIMEOUT = 600.0
STOP_TIMEOUT = 30.0


class ServerFailed(Exception):
    """The server could not be started."""


@dataclass(frozen=True, slots=True)
class Running:
    """A started server; ``seconds_to_ready`` from its start to its first answer."""

    process: psutil.Process
    seconds_to_ready: float

    def memory(self) -> int:
        """Bytes that all its processes hold together: the sum of their proportional set sizes (``Pss`` of Linux's
        ``smaps_rollup``), in which a page that several share counts once."""
        return sum(_proportional(process.pid) for process in (self.process, *self.process.children(recursive=True)))


@contextmanager
def started(command: str, url: str, environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start ``command`` (split as a shell would, but run by none), and end it and all its processes at the end.

    Raises ServerFailed when something answers at ``url`` before, or the server does not within START_TIMEOUT.
    """
    if answers(url):
        raise ServerFailed(f"a server answers at {url} already: stop it, or leave out the command that starts one")
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | (environment or {}),
            start_new_session=True,  # its process id is then the id of the group of all that it starts
        )
        try:
            _wait_until_ready(process, url, output)
            yield Running(psutil.Process(process.pid), time.monotonic() - start)
        finally:
            _stop(process)


def answers(url: str) -> bool:
    """Whether the server at ``url`` is ready: by ``/health``, or by ``/v1/models`` where there is none."""
    for path in ("/health", "/v1/models"):
        try:
            status = _status(url, path)
        except (OSError, HTTPException):
            return False
        if status != 404:
            return status == 200
    return False


def free_port() -> int:
    """One that the system has just had free on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def _status(url: str, path: str) -> int:
    """By the plainest client there is: it asks often while the server, which is timed, starts on the same processors."""
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.netloc, timeout=5.0)
    try:
        connection.request("GET", parts.path + path)
        return connection.getresponse().status
    finally:
        connection.close()


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, output: IO[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not answers(url):
        if process.poll() is not None:
            raise ServerFailed(f"it ended with code {process.returncode} before it was ready:\n{_tail(output)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"it was not ready at {url} after {START_TIMEOUT:g} s:\n{_tail(output)}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, and kill what is left of it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(output: IO[bytes], lines: int = 20) -> str:
    output.seek(0)
    return "\n".join(output.read().decode(errors="replace").splitlines()[-lines:])
