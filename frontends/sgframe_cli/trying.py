"""What of a service can be tried without its model: each part is built, the channels carry a message, the port is free.

Everything that was made is closed again, and nothing is left running. Knows no part but by its contract.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path

from sgframe.assembly.choice import Choice, Choices
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.errors import ConfigError
from sgframe.front.folders import private_folder
from sgframe.interfaces.grammar import Vocabulary
from sgframe.interfaces.transport import Transport
from sgframe.journal import new_file
from sgframe.letter import FRONT_CHANNEL, SCHEDULER, WORKER, WORKER_CHANNEL, replica_name
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import SchedulerSpec, SpeculationSpec, build
from sgframe_openai.listener import bind

FRAME = b"is anybody there?"
ANSWER_TIME = 5.0
"""Seconds that a message may take between two ends in one process."""


def try_parts(settings: Settings, choices: Choices) -> None:
    """Build a scheduler, with pages of one token, and what the front is made of. Raises ConfigError."""
    limits = Limits(slots=1, max_running=1, max_step_tokens=1)
    spec = SchedulerSpec(
        limits,
        choices[Seam.CACHE],
        choices[Seam.POLICY],
        settings.admission,
        speculation=SpeculationSpec(choices[Seam.SPECULATOR], vocab_size=1, wide_step=settings.wide_step),
    )
    build(spec, Scheduler, choices.shadow)
    choices[Seam.SOURCE].build()
    for grammar in choices.grammars.values():
        grammar.build(vocabulary=Vocabulary([b"a"], ()))


def try_transport(choice: Choice) -> Path:
    """Send a message through a channel of the longest name; returns the folder it lay in. Raises ConfigError."""
    folder = private_folder()
    try:
        with ExitStack() as held:
            ends = [held.enter_context(closing(_transport(choice, folder))) for _ in range(2)]
            listener, connector = ends[0].listen(WORKER_CHANNEL), ends[1].connect(WORKER_CHANNEL)
            connector.send(FRAME)
            if listener.recv(ANSWER_TIME) != FRAME:
                raise ConfigError(f"{choice}: no message came through its channel within {ANSWER_TIME:g} s")
    except ConfigError:
        raise
    except Exception as error:  # whatever a third party's channel may raise
        raise ConfigError(f"{choice}: a message through its channel failed: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def try_port(settings: Settings) -> str:
    """Take the port and give it back; returns where the server would be. Raises ConfigError."""
    with bind(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port if settings.port else '(a free port)'}"


def try_journal(settings: Settings) -> None:
    """Raises ConfigError when the journal that is asked for cannot be begun."""
    if settings.journal:
        with new_file(Path(settings.journal)):
            pass
        Path(settings.journal).unlink()


def processes(settings: Settings) -> list[str]:
    """Those that would be started, by their names."""
    first = settings.node_rank * settings.local_ranks
    workers = [f"{WORKER}{rank}" for rank in range(first, first + settings.local_ranks)]
    if settings.node_rank:
        return workers
    each = [SCHEDULER, *workers]
    copies = [[replica_name(name, replica, settings.replicas) for name in each] for replica in range(settings.replicas)]
    return [FRONT_CHANNEL, *chain(*copies)]


def _transport(choice: Choice, folder: Path) -> Transport:
    transport: Transport = choice.build(folder=folder)
    return transport
