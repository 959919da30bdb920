"""Children on this machine: starts them, hears their pulse, knows at once when one dies, and ends them.

A child is a process, or a thread when the transport lives within one process. Processes are started afresh by
``python -m sgframe.child``: nothing of the parent's state or main module is needed, so a script needs no ``__main__``
guard, and a notebook works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sgframe import errors
from sgframe.child import perform
from sgframe.errors import ConfigError, EngineDead, SgframeError
from sgframe.front.folders import private_folder
from sgframe.interfaces.launcher import Child, Crew, Watcher
from sgframe.interfaces.transport import Transport
from sgframe.letter import FRONT_CHANNEL, Letter, write_letter
from sgframe.pulse import Pulse, PulseMessage

log = logging.getLogger(__name__)


def start_error(name: str, reason: str) -> SgframeError:
    """``reason`` as the error of that class which a child died of, if it is a fault of the settings; else as EngineDead."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, ConfigError):
        return kind(reason)
    return EngineDead(reason)


class LocalCrew(Crew):
    """The processes of one scheduler on this machine, in a private folder; threads, if the transport wants that.

    ``environ`` is set for them over this process's own. ``kind`` makes the children. There is a channel where there is a
    scheduler. Raises ConfigError when one cannot be started, and then nothing is left.
    """

    def __init__(
        self, letters: Sequence[Letter], watcher: Watcher, environ: Mapping[str, str], kind: type[Child] = Child
    ) -> None:
        choice = letters[0].choices["transport"]
        choice.load()
        self._folder = private_folder()  # late: a kill before there are children leaves it to the next start
        self.children: list[Child] = []
        with contextlib.ExitStack() as undo:
            undo.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._transport: Transport = choice.build(folder=self._folder)
            undo.callback(self._transport.close)
            if letters[0].scheduling is not None:
                self.channel = self._transport.listen_async(FRONT_CHANNEL)
            for letter in letters:
                self.children.append(self._start(letter.at(self._folder), watcher, environ, kind))
                undo.callback(self.children[-1].kill)
            undo.pop_all()

    def _start(self, letter: Letter, watcher: Watcher, environ: Mapping[str, str], kind: type[Child]) -> Child:
        if self._transport.in_process:
            return start_thread(letter, watcher, kind)
        return start_process(letter, watcher, environ, kind)

    async def close(self, *, kill: bool = False) -> None:
        if hasattr(self, "channel"):
            self.channel.close()
        if kill:
            for child in self.children:
                child.kill()
        await asyncio.gather(*(child.stop() for child in self.children))
        self._transport.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def start_process(
    letter: Letter, watcher: Watcher, environ: Mapping[str, str] | None = None, kind: type[Child] = Child
) -> Child:
    """Start ``letter`` in a process of its own; to be called in the running event loop.

    ``environ`` is set for it over this process's own. Raises ConfigError when the machine has no room for one.
    """
    loop = asyncio.get_running_loop()
    process, pulse_in = _spawn(letter, {**os.environ, **(environ or {})})
    assert process.stdin is not None
    lifeline = process.stdin

    def end() -> int:
        loop.remove_reader(pulse_in)
        os.close(pulse_in)
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:  # it closed its pulse and yet goes on
            process.kill()
            return process.wait()

    def kill() -> None:
        with contextlib.suppress(OSError):
            lifeline.close()
        if process.poll() is None:
            process.kill()
            process.wait()

    child = kind(letter.name, watcher, kill)
    lines = _Lines(child, end)
    loop.add_reader(pulse_in, lines.read, pulse_in)
    with contextlib.suppress(BrokenPipeError):  # it died already; the pulse will tell
        write_letter(lifeline, letter)
    return child


def _spawn(letter: Letter, environ: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """A process for ``letter``, which its standard input waits for, and the front's end of its pulse pipe."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    try:
        pulse_in, pulse_out = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sgframe.child", str(pulse_out), letter.folder],
                stdin=subprocess.PIPE,
                pass_fds=[pulse_out],
                env={**environ, "PYTHONPATH": path},
            )
        except OSError:
            os.close(pulse_in)
            raise
        finally:
            os.close(pulse_out)
    except OSError as error:
        raise ConfigError(
            f"the {letter.name} process cannot be started: {error.strerror}; free memory, or raise the limits of open files "
            "and processes (ulimit -n, ulimit -u)"
        ) from None
    os.set_blocking(pulse_in, False)
    return process, pulse_in


class _Lines:
    """Cuts what comes out of a pulse pipe into messages; ``end`` is called at its end, and gives the exit code."""

    def __init__(self, child: Child, end: Callable[[], int]) -> None:
        self._child = child
        self._end = end
        self._rest = b""
        self._decode = msgspec.json.Decoder(PulseMessage).decode

    def read(self, fd: int) -> None:
        data = os.read(fd, 65536)
        if not data:
            self._child.hear_end(self._end())
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._child.hear(self._decode(line))


def start_thread(letter: Letter, watcher: Watcher, kind: type[Child] = Child) -> Child:
    """Start ``letter`` in a thread of this process; to be called in the running event loop."""
    loop = asyncio.get_running_loop()

    def tell(message: PulseMessage) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(child.hear, message)

    def run() -> None:
        pulse = Pulse(tell)
        try:
            perform(letter, pulse)
        except Exception:
            log.debug("%s ended", letter.name, exc_info=True)
        finally:
            pulse.stop()
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(child.hear_end, 0)

    thread = threading.Thread(target=run, name=f"sgframe::{letter.name}", daemon=True)
    child = kind(letter.name, watcher, lambda: None)
    thread.start()
    return child
