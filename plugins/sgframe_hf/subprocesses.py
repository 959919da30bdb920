"""Runs the plugin's helper processes (pip, the converter): watched, killed with their caller, their last words kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO

_TICK_SECONDS = 0.1
_TAIL_BYTES = 2000


class ChildFailed(Exception):
    """The process ended with another status than 0; the message is the end of what it printed."""


def run_module(
    arguments: Sequence[str], *, lock: int, tick: Callable[[], None], environment: Mapping[str, str] | None = None
) -> None:
    """Run ``python -m arguments…`` with this interpreter, calling ``tick`` while it runs. Raises ChildFailed.

    The child inherits the descriptor ``lock``. Its standard input stays open as long as this process lives.
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**env, **(environment or {})},
            pass_fds=(lock,),
        )
        try:
            _watch(child, tick)
        finally:
            child.kill()  # does nothing once it has ended
            child.communicate()
        if child.returncode:
            raise ChildFailed(_last_words(child.returncode, output))


def _watch(child: subprocess.Popen[bytes], tick: Callable[[], None]) -> None:
    while True:
        try:
            child.wait(_TICK_SECONDS)
            return
        except subprocess.TimeoutExpired:
            tick()


def _last_words(status: int, output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
    text = output.read().decode("utf-8", "replace").strip()
    if status == -signal.SIGKILL:
        return "it was killed, most likely because memory ran out"
    return text or f"it ended with status {status} and printed nothing"
