"""A worker's role: load the model, then execute what the scheduler plans, or what rank 0 executes."""

from __future__ import annotations

import gc
import logging
import os
from contextlib import ExitStack
from functools import partial
from typing import NoReturn

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Backend
from sgframe.interfaces.transport import Transport
from sgframe.letter import WORKER_CHANNEL, Letter
from sgframe.pulse import Pulse
from sgframe.settling import settle
from sgframe.worker.loop import WorkerLoop

log = logging.getLogger(__name__)


def work(letter: Letter, transport: Transport, pulse: Pulse, held: ExitStack) -> None:
    """Work until the scheduler, or rank 0, is gone; ``held`` closes the executor.

    While it loads, a process of its own collects no garbage: there is hardly any, and to look for it among all that is
    imported took 0.25 s of 2.2.
    """
    owns_process = not transport.in_process
    if owns_process:
        gc.disable()
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
    if owns_process:
        settle()
        gc.enable()
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
