"""The servers that are compared, each started, warmed up and measured in its turn. Knows rows by their face only."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import httpx

from drive.client import RequestFailed
from drive.meeting import measure_texts, meet
from drive.outcome import Outcome, Target, Workload
from drive.peers import Launch
from drive.prompts import PromptMaker, Texts
from drive.quiet import Waited, wait_for_quiet
from drive.rows import Row, warm_up
from drive.server import Running, ServerFailed, free_port, started
from sgframe.errors import SgframeError

PORT = "{port}"
FAILURES = (RequestFailed, ServerFailed, SgframeError, OSError, ValueError, httpx.HTTPError)


@dataclass(slots=True)
class Side:
    """A server, and what was seen of it: ``outcomes`` by row, one for each run, ``failures`` in words.

    Without a ``command`` it runs already, at ``url``. ``{port}`` in the command is a free port for each start, and ``url``
    None then; otherwise the port of ``url`` has to be the command's. ``cannot`` says by row why it is left out. ``ours``
    speaks our language of programs.
    """

    name: str
    url: str | None
    model: str | None = None
    command: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    title: str = ""
    version: str = ""
    ours: bool = False
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds_to_ready: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    waited: list[Waited] = field(default_factory=list)

    @classmethod
    def told(cls, name: str, url: str, model: str | None, command: str | None, *, ours: bool = False) -> Side:
        """By an address, and a command if it is to be started."""
        return cls(name, None if command and PORT in command else url, model, command, ours=ours)

    @classmethod
    def of(cls, name: str, launch: Launch, *, ours: bool = False) -> Side:
        """By a descriptor."""
        return cls(
            name=name,
            url=None,
            model=launch.model,
            command=launch.command,
            environment=launch.environment,
            cannot=launch.cannot,
            title=launch.title,
            version=launch.version,
            ours=ours,
        )

    @contextmanager
    def up(self) -> Iterator[tuple[str, Running | None]]:
        """The address at which it runs, while it does."""
        if self.command is None:
            yield str(self.url), None
            return
        port = free_port()
        command = self.command.replace(PORT, str(port))
        url = self.url or f"http://127.0.0.1:{port}"
        with started(command, url, self.environment) as server:
            self.seconds_to_ready.append(server.seconds_to_ready)
            yield url, server


class Benchmark:
    """Runs ``rows`` against each side in turn. Without a ``maker``, texts are fitted to the first server's tokenizer, and
    all sides get the same. ``chat``: servers are met by a chat, too, not only asked in the rows that are chats. Before a
    server is started, waits up to ``patience`` seconds for the machine to be quiet."""

    def __init__(
        self, rows: Sequence[Workload], seed: int, maker: PromptMaker | None, *, chat: bool, patience: float
    ) -> None:
        self._rows = rows
        self._seed = seed
        self._maker = maker
        self._chat = chat
        self._patience = patience

    def run(self, sides: Sequence[Side], runs: int, before: Callable[[], None] = lambda: None) -> None:
        """Ours, a peer, the next, ours again …, so that none has the better hours; ``before`` is called before each run. A
        side that fails is told, and the others go on."""
        for run in range(runs):
            before()
            for side in sides:
                if side.command:
                    self._wait(side)
                with _noted(side, f"run {run + 1}"), side.up() as (url, server):
                    self._visit(side, url, run)
                    if server:
                        side.memory_bytes.append(server.memory())

    def _wait(self, side: Side) -> None:
        waited = wait_for_quiet(self._patience)
        side.waited.append(waited)
        state = "quiet" if waited.quiet else f"not quiet, {waited.busy:.0%} busy"
        _say(f"waited {waited.seconds:.0f} s before {side.name}: {state}")

    def _visit(self, side: Side, url: str, run: int) -> None:
        maker = self._maker or Texts(1.0)
        greeting = maker.join(maker.draw(Random(0), 8))
        endpoint = asyncio.run(meet(url, side.model, greeting, chat=self._chat))
        self._maker = maker = self._maker or asyncio.run(measure_texts(endpoint, chat=self._chat))
        rows = [row for row in self._rows if row.name not in side.cannot]
        seed = f"{self._seed}/{run}"
        asyncio.run(warm_up(endpoint, [row for row in rows if isinstance(row, Row)], maker, seed))
        target = Target(endpoint, maker, seed, side.ours)
        for row in rows:
            with _noted(side, f"run {run + 1}, row {row.name}"):
                outcome = row.run(target)
                side.outcomes.setdefault(row.name, []).append(outcome)
                _say(f"run {run + 1}, {side.name}, row {row.name}: {outcome.value:.4g} {row.unit}")


@contextmanager
def _noted(side: Side, where: str) -> Iterator[None]:
    """Failures within are kept and told."""
    try:
        yield
    except FAILURES as error:
        side.failures.append(f"{where}: {error or type(error).__name__}")
        _say(f"{side.name} failed, {side.failures[-1]}")


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
