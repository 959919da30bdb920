"""A child process's side: it reads its letter, does its role, and dies when its parent does.

Three wires lead to the parent. Standard input brings the letter and then stays open: its end means that the parent is
gone (the lifeline). The pulse pipe takes beats, progress and last words. The transport carries the work.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import msgspec
from setproctitle import setproctitle

from sgframe.assembly.choice import Choice, ShadowChoice
from sgframe.errors import ConfigError, PeerLost, RankLost
from sgframe.interfaces.backend import Backend, ExecutorSpec, Ranks
from sgframe.interfaces.grammar import Vocabulary
from sgframe.interfaces.transport import Transport
from sgframe.journal import Journal, RecordedScheduler
from sgframe.logs import LogSettings, configure_logging
from sgframe.messages import Loaded
from sgframe.pulse import Pulse, PulseMessage
from sgframe.scheduler.limits import LeaseLimits, Limits
from sgframe.scheduler.loop import SchedulerLoop
from sgframe.scheduler.report import Report
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import GuidesSpec, SchedulerSpec, build
from sgframe.worker.loop import WorkerLoop

log = logging.getLogger(__name__)

SCHEDULER = "scheduler"
WORKER = "worker-"
"""What the names of the workers begin with; their rank follows."""
FRONT_CHANNEL = "front"
WORKER_CHANNEL = "worker-0"


class SchedulingSpec(msgspec.Struct, frozen=True):
    """How the scheduler is to work; see the settings of the same names. ``journal`` is a path, empty for none.
    ``grammars`` are those that requests may name; without any, no vocabulary is sent."""

    overlap: bool
    max_leases: int
    lease_share: float
    lease_seconds: float
    grammars: dict[str, Choice]
    jump_forward: bool
    admission: str
    journal: str
    journal_bytes: int
    shadow: ShadowChoice | None


class Letter(msgspec.Struct, frozen=True):
    """All that a child needs to know; plain data, so that it looks nothing up. ``choices`` is keyed by seam; ``scheduling``
    is for the scheduler."""

    name: str
    folder: str
    choices: dict[str, Choice]
    executor: ExecutorSpec
    ranks: Ranks
    scheduling: SchedulingSpec | None
    log: LogSettings


def perform(letter: Letter, pulse: Pulse) -> None:
    """Do the role that ``letter.name`` says, until the work or the peer ends.

    What it dies of are its last words, said before anything is closed: whoever then misses it can be told why.
    """
    with ExitStack() as held:
        try:
            transport: Transport = letter.choices["transport"].build(folder=Path(letter.folder))
            held.callback(transport.close)
            if letter.scheduling is not None:
                _schedule(letter, letter.scheduling, transport, pulse)
            else:
                _work(letter, transport, pulse, held)
        except Exception as error:
            pulse.last_words(error)
            raise


def _schedule(letter: Letter, scheduling: SchedulingSpec, transport: Transport, pulse: Pulse) -> None:
    front = transport.connect(FRONT_CHANNEL)
    worker = transport.listen(WORKER_CHANNEL)
    loop = SchedulerLoop(transport, front, worker, pulse, overlap=scheduling.overlap)
    loaded = loop.wait_until_loaded()
    guides = None
    if scheduling.grammars:
        told = loop.receive_vocabulary()
        vocabulary = Vocabulary(told.tokens, told.stop_ids, told.tokenizer_json).resized(loaded.vocab_size)
        guides = GuidesSpec(scheduling.grammars, vocabulary, scheduling.jump_forward)
        pulse.phase("preparing the grammars")
    loop.run(loaded, _build_scheduler(letter, scheduling, loaded, guides), Report(letter.log.interval))


def _build_scheduler(
    letter: Letter, scheduling: SchedulingSpec, loaded: Loaded, guides: GuidesSpec | None
) -> Scheduler:
    executor = letter.executor
    spec = SchedulerSpec(
        limits=Limits(
            slots=loaded.slots,
            max_running=executor.max_rows,
            max_step_tokens=executor.max_step_tokens,
            page_size=loaded.page_size,
            leases=LeaseLimits(
                scheduling.max_leases, int(loaded.slots * scheduling.lease_share), scheduling.lease_seconds
            ),
        ),
        cache=letter.choices["cache"],
        policy=letter.choices["policy"],
        admission=scheduling.admission,
        guides=guides,
    )
    if not scheduling.journal:
        return build(spec, Scheduler, scheduling.shadow)
    journal = Journal(Path(scheduling.journal), scheduling.journal_bytes, spec)
    return build(spec, partial(RecordedScheduler, journal), scheduling.shadow)


def _work(letter: Letter, transport: Transport, pulse: Pulse, held: ExitStack) -> None:
    ranks = letter.ranks
    channel = transport.connect(WORKER_CHANNEL) if ranks.rank == 0 else None
    backend: Backend = letter.choices["backend"].build()
    executor = backend.executor()
    held.callback(executor.close)
    if ranks.size > 1:
        pulse.phase("joining the other ranks")
        executor.join(ranks, partial(_give_up, pulse))
    pulse.phase("loading the model")
    loaded = executor.load(letter.executor, pulse.progress)
    gc.collect()
    gc.freeze()  # else each full collection walks all that was imported and loaded, which takes longer than many steps
    if channel is not None:
        WorkerLoop(executor, channel, pulse).run(loaded)
    else:
        pulse.phase("following rank 0")
        executor.follow()


def _give_up(pulse: Pulse, reason: str) -> NoReturn:
    """End this process from any of its threads; the main one may wait for a rank that is gone, and for ever."""
    log.error("%s", reason)
    pulse.last_words(RankLost(reason))
    os._exit(1)


def main() -> None:
    """Entry of ``python -m sgframe.child PULSE_FD``."""
    pulse_fd = int(sys.argv[1])
    os.set_inheritable(pulse_fd, False)
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)  # sent to the whole group; the parent decides when its children end
    stdin = sys.stdin.buffer
    letter = read_letter(stdin)
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


def write_letter(pipe: IO[bytes], letter: Letter) -> None:
    data = msgspec.json.encode(letter)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def read_letter(pipe: IO[bytes]) -> Letter:
    """Raises SystemExit when the parent died before it had written the letter."""
    size = int.from_bytes(pipe.read(8), "little")
    data = pipe.read(size)
    if not data:
        raise SystemExit(1)
    return msgspec.json.decode(data, type=Letter)


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
