"""A server that the benchmark starts and ends itself. Knows its command and its address, not what it serves."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import httpx

START_TIMEOUT = 600.0
STOP_TIMEOUT = 30.0


class ServerFailed(Exception):
    """The server could not be started."""


@contextmanager
def started(command: str, url: str) -> Iterator[None]:
    """Start ``command`` (split as a shell would, but run by none), and end it and all its processes at the end.

    Raises ServerFailed when something answers at ``url`` before, or the server does not within START_TIMEOUT.
    """
    if answers(url):
        raise ServerFailed(f"a server answers at {url} already: stop it, or leave out the command that starts one")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its process id is then the id of the group of all that it starts
        )
        try:
            _wait_until_ready(process, url, output)
            yield
        finally:
            _stop(process)


def answers(url: str) -> bool:
    """Whether the server at ``url`` is ready: by ``/health``, or by ``/v1/models`` where there is none."""
    for path in ("/health", "/v1/models"):
        try:
            status = httpx.get(url + path, timeout=5.0).status_code
        except httpx.TransportError:
            return False
        if status != 404:
            return status == 200
    return False


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, output: IO[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not answers(url):
        if process.poll() is not None:
            raise ServerFailed(f"it ended with code {process.returncode} before it was ready:\n{_tail(output)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"it was not ready at {url} after {START_TIMEOUT:g} s:\n{_tail(output)}")
        time.sleep(0.2)


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
