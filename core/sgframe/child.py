"""A child process's side: it reads its letter, does its role, and dies when its parent does.

Three wires lead to the parent. Standard input brings the letter and then stays open: its end means that the parent is
gone (the lifeline). The pulse pipe takes beats, progress and last words. The transport carries the work.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import msgspec
from setproctitle import setproctitle

from sgframe.errors import ConfigError, PeerLost, RankLost
from sgframe.interfaces.transport import Transport
from sgframe.letter import Letter, read_letter
from sgframe.logs import configure_logging
from sgframe.pulse import Pulse, PulseMessage

log = logging.getLogger(__name__)


def perform(letter: Letter, pulse: Pulse) -> None:
    """Do the role that ``letter.name`` says, until the work or the peer ends.

    What it dies of are its last words, said before anything is closed: whoever then misses it can be told why.
    """
    with ExitStack() as held:
        try:
            transport: Transport = letter.choices["transport"].build(folder=Path(letter.folder))
            held.callback(transport.close)
            if letter.scheduling is not None:
                from sgframe.roles.scheduling import schedule  # noqa: PLC0415 (a process imports its own role alone)

                schedule(letter, letter.scheduling, transport, pulse)
            else:
                from sgframe.roles.working import work  # noqa: PLC0415 (likewise)

                work(letter, transport, pulse, held)
        except Exception as error:
            pulse.last_words(error)
            raise


def main() -> None:
    """Entry of ``python -m sgframe.child PULSE_FD FOLDER``."""
    pulse_fd = int(sys.argv[1])
    os.set_inheritable(pulse_fd, False)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # sent to the whole group; the parent decides when its children end
    stdin = sys.stdin.buffer
    try:
        letter = read_letter(stdin)
    except EOFError:
        shutil.rmtree(sys.argv[2], ignore_errors=True)
        _leave(1)
    setproctitle(f"sgframe::{letter.name}")
    configure_logging(letter.log, letter.name)
    threading.Thread(target=_follow_parent, args=(stdin.fileno(), letter.folder), name="lifeline", daemon=True).start()
    pulse = Pulse(PipeWriter(pulse_fd))
    try:
        perform(letter, pulse)
    except Exception as error:
        if isinstance(error, (PeerLost, RankLost)):
            log.error("%s ends: %s", letter.name, error)
        elif not isinstance(error, ConfigError):
            log.exception("%s ends", letter.name)
        _leave(1)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End at once. All is closed; to take the interpreter apart with its hundreds of modules costs up to seconds, for which
    the parent would wait."""
    logging.shutdown()
    os._exit(code)


class PipeWriter:
    """Writes pulse messages, a JSON line each, so that one write is one message whatever thread it comes from."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self, message: PulseMessage) -> None:
        os.write(self._fd, msgspec.json.encode(message) + b"\n")


def _follow_parent(lifeline: int, folder: str) -> None:
    """Block until the parent's end of the lifeline closes; then leave at once, and leave nothing behind."""
    while os.read(lifeline, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
