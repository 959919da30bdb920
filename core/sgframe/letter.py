"""What a child process is told at its start, and how it travels. Light: the parent needs it before anything is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec

from sgframe.assembly.choice import Choice, ShadowChoice
from sgframe.interfaces.backend import ExecutorSpec, Ranks
from sgframe.logs import LogSettings

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
    wide_step: int
    journal: str
    journal_bytes: int
    shadow: ShadowChoice | None


class Letter(msgspec.Struct, frozen=True):
    """All that a child needs to know; plain data, so that it looks nothing up. ``choices`` is keyed by seam; ``scheduling``
    is for the scheduler. ``replica`` is the number of its copy of the model, of ``replicas`` behind one front. ``folder`` is
    empty until a launcher has found a place."""

    name: str
    replica: int
    replicas: int
    folder: str
    choices: dict[str, Choice]
    executor: ExecutorSpec
    ranks: Ranks
    scheduling: SchedulingSpec | None
    log: LogSettings

    def at(self, folder: Path) -> Letter:
        """The same for a process that shares the private ``folder`` with others on its machine."""
        ranks = replace(self.ranks, folder=str(folder))
        return msgspec.structs.replace(self, folder=str(folder), ranks=ranks)

    def joining(self, address: str) -> Letter:
        """The same for a rank on a machine of its own; rank 0 lets the others join at ``address``, a ``host:port``."""
        ranks = replace(self.ranks, nodes=self.ranks.size, address=address)
        return msgspec.structs.replace(self, ranks=ranks)


def replica_name(role: str, replica: int, replicas: int) -> str:
    """What the process of that role is called: ``scheduler``, with several replicas ``scheduler@0``."""
    return f"{role}@{replica}" if replicas > 1 else role


def write_letter(pipe: IO[bytes], letter: Letter) -> None:
    data = msgspec.json.encode(letter)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def read_letter(pipe: IO[bytes]) -> Letter:
    """Raises EOFError when the parent died before it had written the letter."""
    size = int.from_bytes(pipe.read(8), "little")
    data = pipe.read(size)
    if not data or len(data) < size:
        raise EOFError
    return msgspec.json.decode(data, type=Letter)
