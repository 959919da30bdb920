"""The journal: all that a scheduler was told, so that its every decision can be made again (see ``sgframe.replay``).

A file of frames, each its length, its CRC-32 and a msgpack message: first a Header, then the scheduler's inputs in the order
in which they came, and after each plan its digest. A frame is either whole or the end of the file: what a killed process
leaves behind can be read up to its last step. The file holds prompts and outputs as token ids; only its owner can read it.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from sgframe.errors import ConfigError
from sgframe.messages import (
    AbortRequest,
    Decoder,
    FlushCache,
    GenerateRequest,
    Message,
    ReleaseLeases,
    ScheduleBatch,
    StepFailed,
    StepOutput,
    encode,
    ints,
)
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import SchedulerSpec

log = logging.getLogger(__name__)

FORMAT = "sgframe-journal-4"
_FRAME = struct.Struct("<II")


class Header(Message, frozen=True, tag=True, array_like=True):
    """What the scheduler is made of; ``format`` is FORMAT."""

    format: str
    spec: SchedulerSpec


class Planned(Message, frozen=True, tag=True, array_like=True):
    """A plan was asked for at ``now``; ``step`` and ``digest`` are the batch's, -1 and 0 if there was none."""

    now: float
    step: int
    digest: int


Entry = GenerateRequest | AbortRequest | ReleaseLeases | FlushCache | Planned | StepOutput | StepFailed


def digest(batch: ScheduleBatch) -> int:
    """64 bits of BLAKE2b over the batch as it goes to the worker."""
    return int.from_bytes(blake2b(encode(batch), digest_size=8).digest(), "little")


@contextmanager
def new_file(path: Path) -> Iterator[None]:
    """Make the empty file of a journal that is to begin later; it is gone again if what is done meanwhile raises.

    Raises ConfigError when the file exists or cannot be made.
    """
    os.close(_open(path, os.O_EXCL))
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _open(path: Path, flags: int = 0) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | flags, 0o600)
    except FileExistsError:
        raise ConfigError(f"the journal {path} exists already: move it away, or name another file") from None
    except OSError as error:
        raise ConfigError(f"the journal {path} cannot be written: {error.strerror}") from None


class Journal:
    """Appends to a file, new or empty, at most ``limit`` bytes; from there on nothing is recorded, and the log says so."""

    def __init__(self, path: Path, limit: int, spec: SchedulerSpec) -> None:
        """Raises ConfigError when the file holds something or cannot be made."""
        self._fd = _open(path)
        if os.fstat(self._fd).st_size:
            os.close(self._fd)
            raise ConfigError(f"the journal {path} exists already: move it away, or name another file")
        self._path = path
        self._room = limit
        self._frames: list[bytes] = []
        self.record(Header(FORMAT, spec))
        self.flush()

    def record(self, message: Header | Entry) -> None:
        """Keep ``message`` for the next ``flush``."""
        data = encode(message)
        self._frames += (_FRAME.pack(len(data), crc32(data)), data)

    def flush(self) -> None:
        """Hand all that was recorded to the operating system in one write, which outlives this process."""
        data = b"".join(self._frames)
        self._frames = []
        if self._room < 0:
            return
        self._room -= len(data)
        if self._room < 0:
            log.warning("the journal %s is full: nothing is recorded from here on", self._path)
            return
        try:
            written = os.write(self._fd, data)
        except OSError as error:  # a full disk must not end the service
            self._give_up(error.strerror)
        else:
            if written < len(data):  # nothing behind a torn frame could be read
                self._give_up("the disk took a part of a frame only")

    def _give_up(self, reason: str | None) -> None:
        self._room = -1
        log.error("the journal %s cannot be written any more: %s", self._path, reason)


class RecordedScheduler(Scheduler):
    """A scheduler that writes down all it is told, before it acts on it, and what it planned."""

    def __init__(self, journal: Journal, *parts: Any) -> None:
        super().__init__(*parts)
        self._journal = journal

    def add(self, message: GenerateRequest) -> None:
        self._journal.record(message)
        super().add(message)

    def abort(self, request_id: int, cause: str) -> None:
        self._journal.record(AbortRequest(request_id, cause))
        super().abort(request_id, cause)

    def release_leases(self, leases: Sequence[int]) -> None:
        self._journal.record(ReleaseLeases(ints(leases)))
        super().release_leases(leases)

    def flush(self) -> int:
        self._journal.record(FlushCache(0))
        return super().flush()

    def plan(self, now: float) -> ScheduleBatch | None:
        try:
            batch = super().plan(now)
        except BaseException:  # what led here is what a replay is wanted for
            self._journal.record(Planned(now, -1, 0))
            self._journal.flush()
            raise
        self._journal.record(Planned(now, -1, 0) if batch is None else Planned(now, batch.step, digest(batch)))
        self._journal.flush()
        return batch

    def apply(self, output: StepOutput) -> None:
        self._journal.record(output)
        try:
            super().apply(output)
        except BaseException:
            self._journal.flush()
            raise

    def fail(self, reason: str) -> None:
        self._journal.record(StepFailed(-1, reason))
        super().fail(reason)


def read_journal(path: Path) -> tuple[SchedulerSpec, Iterator[Entry]]:
    """The journal's spec and, lazily, its entries up to the first frame that is not whole.

    Raises ConfigError when the file cannot be read or is no journal.
    """
    frames = _frames(path)
    try:
        header = msgspec.msgpack.decode(next(frames), type=Header)
    except (StopIteration, msgspec.DecodeError):
        raise ConfigError(f"{path} is no journal of this version of sgframe ({FORMAT})") from None
    if header.format != FORMAT:
        raise ConfigError(f"{path} is a journal of the format {header.format!r}; this version reads {FORMAT}")
    return header.spec, map(Decoder[Entry](Entry), frames)


def _frames(path: Path) -> Iterator[bytes]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigError(f"the journal {path} cannot be read: {error.strerror}") from None
    with file:
        while len(head := file.read(_FRAME.size)) == _FRAME.size:
            size, checksum = _FRAME.unpack(head)
            data = file.read(size)
            if len(data) < size or crc32(data) != checksum:
                return
            yield data
