"""One schema through one grammar, in a process that may hang, run out of memory or abort without ending the benchmark."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import thread_time_ns

import msgspec

from drive.grammars import PEERS, Peer, Walk
from sgframe.interfaces.grammar import Vocabulary

START_SECONDS = 120.0
"""For a process to import its library and read the vocabulary."""


class Sample(msgspec.Struct, frozen=True):
    """A schema, and its instances as the tokenizer cuts them."""

    id: str
    group: str
    recursive: bool
    schema: str
    valid: list[list[int]]
    invalid: list[list[int]]


class Run(msgspec.Struct):
    """What came of a sample. ``outcome``: ``compiled``, ``refused``, ``timeout`` or ``crash``; the rest holds for the first.

    Times are µs of CPU. ``cold`` are the masks of the valid instances the first time, ``warm`` the second; ``rejected`` and
    ``accepted`` count verdicts that are wrong. Of ``tokens`` in valid instances ``forced`` were told in advance, and
    ``strange`` is how often the tokens told were not the tokenizer's own. ``resident`` is what memory grew by, in bytes.
    """

    id: str
    group: str
    recursive: bool
    outcome: str
    reason: str = ""
    compile: float = 0.0
    load: float = 0.0
    cold: list[float] = []
    warm: list[float] = []
    rejected: int = 0
    accepted: int = 0
    tokens: int = 0
    forced: int = 0
    strange: int = 0
    resident: int = 0

    @property
    def is_right(self) -> bool:
        return self.outcome == "compiled" and not self.rejected and not self.accepted


# ------------------------------------------------------------------------------------------ in the child


def measure(peer: Peer, sample: Sample, kept: list[object]) -> Run:
    """``kept`` holds on to what was compiled, as a server's cache would."""
    run = Run(sample.id, sample.group, sample.recursive, "compiled")
    before = _resident()
    clock = _Clock()
    try:
        compiled = peer.compile(sample.schema)
    except Exception as error:  # whatever a library raises
        run.outcome, run.reason = "refused", str(error).strip()[:200]
        return run
    run.compile = clock.lap()
    start = peer.load(compiled)
    run.load = clock.lap()
    kept.append((compiled, start))
    run.rejected = sum(not _walk(start(), tokens, run.cold) for tokens in sample.valid)
    run.resident = max(0, _resident() - before)
    for tokens in sample.valid:
        if _walk(start(), tokens, run.warm):
            _jump(start(), tokens, run)
    run.accepted = sum(_walk(start(), tokens, []) for tokens in sample.invalid)
    return run


def _walk(walk: Walk, tokens: Sequence[int], times: list[float]) -> bool:
    """Whether ``tokens`` are a whole output; ``times`` gets those of the masks."""
    clock = _Clock()
    for token in tokens:
        clock.lap()
        walk.fill()
        times.append(clock.lap())
        if not (walk.allows(token) and walk.accept(token)):
            return False
    return walk.may_stop()


def _jump(walk: Walk, tokens: Sequence[int], run: Run) -> None:
    """As a server would: what is forced is taken, and the model is asked for the next."""
    place = 0
    while place < len(tokens):
        forced = [] if walk.may_stop() else walk.forced()
        own = list(tokens[place : place + len(forced)])
        if forced != own:
            run.strange += 1
            forced = []
        run.forced += len(forced)
        for token in forced or tokens[place : place + 1]:
            walk.accept(token)
        place += len(forced) or 1
    run.tokens += len(tokens)


class _Clock:
    """CPU time of this thread between laps, in µs, without what reading it takes."""

    _cost: float | None = None

    def __init__(self) -> None:
        if _Clock._cost is None:
            _Clock._cost = 0.0
            clock = _Clock()
            _Clock._cost = sorted(clock.lap() for _ in range(1001))[500]
        self._last = thread_time_ns()

    def lap(self) -> float:
        now = thread_time_ns()
        passed = (now - self._last) / 1000 - (self._cost or 0.0)
        self._last = thread_time_ns()
        return max(0.0, passed)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _serve(pipe: Connection, name: str, vocabulary: Vocabulary, memory: int) -> None:
    peer = PEERS[name](vocabulary)
    limit = _resident() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries warn of every schema
    kept: list[object] = []
    pipe.send_bytes(b"")
    while True:
        sample = msgspec.msgpack.decode(pipe.recv_bytes(), type=Sample)
        pipe.send_bytes(msgspec.msgpack.encode(measure(peer, sample, kept)))


# ------------------------------------------------------------------------------------------ in the parent


class Worker:
    """A process that measures one peer; a new one after each hang or crash."""

    def __init__(self, name: str, vocabulary: Vocabulary, seconds: float, memory: int) -> None:
        self._seconds = seconds
        self._arguments = name, vocabulary, memory
        self._child: tuple[BaseProcess, Connection] | None = None

    def run(self, sample: Sample) -> Run:
        _, pipe = self._child = self._child or self._start()
        try:
            pipe.send_bytes(msgspec.msgpack.encode(sample))
            if pipe.poll(self._seconds):
                return msgspec.msgpack.decode(pipe.recv_bytes(), type=Run)
            outcome = "timeout"
        except (EOFError, OSError):
            outcome = "crash"
        self.close()
        return Run(sample.id, sample.group, sample.recursive, outcome)

    def close(self) -> None:
        if self._child:
            process, pipe = self._child
            process.kill()
            process.join()
            pipe.close()
            self._child = None

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = get_context("spawn")
        pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
        process.start()
        theirs.close()
        if not pipe.poll(START_SECONDS):
            process.kill()
            raise TimeoutError(f"{self._arguments[0]} did not start within {START_SECONDS:.0f} s")
        pipe.recv_bytes()
        return process, pipe


@contextmanager
def worker(name: str, vocabulary: Vocabulary, seconds: float, memory: int) -> Iterator[Worker]:
    """``seconds`` a schema, and ``memory`` in bytes over what the process starts with."""
    made = Worker(name, vocabulary, seconds, memory)
    try:
        yield made
    finally:
        made.close()


def read_samples(path: Path, encode: Callable[[str], list[int]], text_of: Callable[[object], str]) -> list[Sample]:
    """The lines of real_schemas.jsonl."""
    samples = []
    for line in path.read_text().splitlines():
        said = json.loads(line)
        valid, invalid = ([encode(text_of(value)) for value in said[key]] for key in ("valid", "invalid"))
        samples.append(Sample(said["id"], said["group"], said["recursive"], json.dumps(said["schema"]), valid, invalid))
    return samples
