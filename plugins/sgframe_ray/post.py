"""What stands in a Ray actor: the processes of one rank, started on the actor's machine, and what is to be told of them.

An actor is to them what the front is at home: when it dies, they end and leave nothing behind. Knows nothing of the others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from sgframe.errors import BackendUnavailable, PeerLost
from sgframe.front.threads import in_thread
from sgframe.interfaces.backend import Backend
from sgframe.interfaces.launcher import Child, Watcher
from sgframe.interfaces.source import Checkpoint, ModelSource
from sgframe.letter import Letter
from sgframe.processes import LocalCrew
from sgframe.pulse import Progress, PulseMessage


class Frame(msgspec.Struct, frozen=True, tag=True):
    """From the scheduler, for the front."""

    data: bytes


class Said(msgspec.Struct, frozen=True, tag=True):
    """By a child, of itself."""

    child: str
    message: PulseMessage


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A child, with this exit code."""

    child: str
    code: int | None


News = Frame | Said | Ended
encode_news = msgspec.msgpack.Encoder().encode
decode_news = msgspec.msgpack.Decoder(list[News]).decode


class _Relayed(Child):
    """A child whose every message the front hears, too."""

    def __init__(self, name: str, watcher: Watcher, kill: Callable[[], None]) -> None:
        super().__init__(name, watcher, kill)
        assert isinstance(watcher, Post)
        self._tell = watcher.tell

    def hear(self, message: PulseMessage) -> None:
        super().hear(message)
        self._tell(Said(self.name, message))

    def hear_end(self, code: int | None, how: str = "") -> None:
        super().hear_end(code, how)
        self._tell(Ended(self.name, code))


class Post:
    """The actor's class; its methods run in the actor's event loop."""

    def __init__(self) -> None:
        self._crew: LocalCrew | None = None
        self._relay: asyncio.Task[None] | None = None
        self._news: list[News] = []
        self._any = asyncio.Event()

    async def address(self) -> str:
        """A ``host:port`` of this machine that nobody listens at."""
        from ray.util import get_node_ip_address  # noqa: PLC0415 (Ray's own processes have it loaded)

        host = get_node_ip_address()
        with socket.create_server((host, 0)) as server:
            return f"{host}:{server.getsockname()[1]}"

    async def start(self, written: bytes, speculator: str) -> None:
        """Perform ``written``, letters as JSON, here. Raises ConfigError, also when this machine's devices do not do for it;
        ``speculator`` is the one whose guesses the backend is to verify, empty for none."""
        letters = msgspec.json.decode(written, type=list[Letter])
        worker = letters[-1]
        _require_usable(worker, speculator)
        executor = replace(worker.executor, checkpoint=await self._checkpoint(worker))
        here = [msgspec.structs.replace(letter, executor=executor) for letter in letters]
        self._crew = LocalCrew(here, self, {}, _Relayed)
        if letters[0].scheduling is not None:
            self._relay = asyncio.create_task(self._relay_frames(self._crew))

    async def news(self) -> bytes:
        """What has come since the last call, at least one piece; waits for it."""
        await self._any.wait()
        self._any.clear()
        news, self._news = self._news, []
        return encode_news(news)

    async def send(self, frames: Sequence[bytes]) -> None:
        """To the scheduler. Whether it still lives is told by the news."""
        assert self._crew is not None
        for frame in frames:
            try:
                await self._crew.channel.send(frame)
            except PeerLost:
                return

    async def kill(self, name: str) -> None:
        """End that child at once."""
        assert self._crew is not None
        for child in self._crew.children:
            if child.name == name:
                child.kill()

    async def close(self, *, kill: bool) -> None:
        """See Crew.close."""
        if self._relay is not None:
            self._relay.cancel()
        if self._crew is not None:
            await self._crew.close(kill=kill)

    def tell(self, news: News) -> None:
        self._news.append(news)
        self._any.set()

    async def _checkpoint(self, letter: Letter) -> Checkpoint:
        """The model on this machine, which need not share its files with the front's."""
        known = letter.executor.checkpoint
        if not known.folder or Path(known.folder).is_dir():
            return known
        source: ModelSource = letter.choices["source"].build()
        return await in_thread(lambda: source.resolve(known.name, partial(self._progress, letter.name)))

    def _progress(self, child: str, what: str, done: int, total: int) -> None:
        self.tell(Said(child, Progress(what, done, total)))

    def on_progress(self, child: str, progress: Progress) -> None:
        """A watcher's; the front hears it from the child's messages."""

    def on_death(self, child: str, reason: str) -> None:
        """Likewise."""

    async def _relay_frames(self, crew: LocalCrew) -> None:
        try:
            while True:
                self.tell(Frame(await crew.channel.recv()))
        except PeerLost:
            pass  # the end of the scheduler is told, too


def _require_usable(letter: Letter, speculator: str) -> None:
    backend: Backend = letter.choices["backend"].build()
    found, name = backend.probe(), f"backend '{letter.choices['backend'].name}'"
    if not found.usable:
        raise BackendUnavailable(f"{name} cannot run on {socket.gethostname()}: {found.reason}")
    if letter.ranks.size > 1 and not found.joins:
        raise BackendUnavailable(f"{name} runs on one rank only, but tp_size is {letter.ranks.size}: leave it out")
    if speculator and not found.verifies:
        raise BackendUnavailable(
            f"{name} cannot verify guessed tokens, as speculator '{speculator}' needs it: leave the speculator out, or "
            "choose another backend"
        )
