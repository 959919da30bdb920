"""The engine for asyncio callers: starts the processes, serves generations, knows when one died, and cleans up.

What runs on top of it (the HTTP server, the DSL, ``Engine``) sees text, Deltas and errors, never a process or a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from sgframe.assembly.choice import Choice, Choices
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.compiling import Task
from sgframe.constraints import Constraint
from sgframe.errors import ConfigError, EngineDead, PeerLost, RankLost, RequestError, SgframeError
from sgframe.front.compiler import Compiler, CompilerStats
from sgframe.front.folders import private_folder
from sgframe.front.generation import Generation
from sgframe.front.letters import scheduler_letter, worker_letters
from sgframe.front.scoring import Scored
from sgframe.front.threads import in_thread
from sgframe.front.tokenizer_manager import TokenizerManager
from sgframe.front.vocabulary import vocabulary_of
from sgframe.interfaces.grammar import Grammar
from sgframe.interfaces.policy import Policy
from sgframe.interfaces.source import Checkpoint, ModelSource, Progress, Tokenizer
from sgframe.interfaces.transport import AsyncChannel, Transport
from sgframe.letter import FRONT_CHANNEL, WORKER, WORKER_CHANNEL
from sgframe.messages import CacheDescription, Decoder, Loaded, Namespace, SchedulerMessage, UseVocabulary, encode
from sgframe.processes import Child, ProcessHealth, start_error, start_process, start_thread
from sgframe.pulse import Progress as PulseProgress
from sgframe.sampling import SamplingParams
from sgframe.statistics import SchedulerStats

log = logging.getLogger(__name__)

T = TypeVar("T")
FRONT = "front"
LAST_WORDS_TIME = 0.5
"""Seconds in which the error of one child may still explain the end of another."""
SECOND_HAND = frozenset({RankLost.__name__, PeerLost.__name__})
"""Errors of children that died because another did."""


class AsyncEngine:
    """A running engine. Make it by ``await AsyncEngine.start(...)`` in the event loop that will use it; ``close`` it.

    Attributes:
        settings: what it was started with.
        choices: the part that fills each seam, and those in shadow.
        checkpoint: the model on disk.
        loaded: what the worker announced: vocabulary, context, KV slots, memory ledger.
        dead: why it died, or None while it lives.
    """

    settings: Settings
    choices: Choices
    checkpoint: Checkpoint
    loaded: Loaded

    def __init__(self, settings: Settings, choices: Choices, progress: Progress) -> None:
        self.settings = settings
        self.choices = choices
        self.dead: str | None = None
        self.died = asyncio.Event()
        self._progress = progress
        self._closing = False
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._manager: TokenizerManager | None = None
        self._compiler: Compiler | None = None

    @classmethod
    async def start(cls, settings: Settings, choices: Choices, progress: Progress | None = None) -> AsyncEngine:
        """Fetch the model if need be, start the processes, and wait until they are ready.

        ``progress(what, done, total)`` hears of downloads and loading. Raises ConfigError (ModelError, PluginError …) or
        EngineDead; whatever was started is ended first, also when the call is cancelled.
        """
        if settings.node_rank:
            raise ConfigError(
                f"node_rank is {settings.node_rank}, and only machine 0 serves: start the others with sgframe serve, "
                "which then follow it"
            )
        engine = cls(settings, choices, progress or _ignore)
        with _journal(settings):
            source: ModelSource = choices[Seam.SOURCE].build()
            engine.checkpoint = await in_thread(lambda: source.resolve(settings.model, engine._progress))
            choices[Seam.TRANSPORT].load()
            engine._folder = private_folder()  # late: a kill before there are children leaves it to the next start
            engine._transport = choices[Seam.TRANSPORT].build(folder=engine._folder)
            try:
                await engine._start(source)
            except BaseException:
                await engine.close()
                raise
        return engine

    _folder: Path
    _transport: Transport

    async def _start(self, source: ModelSource) -> None:
        settings = self.settings
        self._channel: AsyncChannel = self._transport.listen_async(FRONT_CHANNEL)
        start = start_thread if self._transport.in_process else start_process
        about = settings, self.choices, self.checkpoint, self._folder
        letters = [scheduler_letter(*about, self._grammars), *worker_letters(*about)]
        self._children = [start(letter, self) for letter in letters]
        tokenizer = await in_thread(lambda: source.tokenizer(self.checkpoint))
        vocabulary = vocabulary_of(tokenizer, tokenizer.vocab_size, self.checkpoint.eos_ids)
        if self._grammars:
            told = UseVocabulary(vocabulary.tokens, vocabulary.stop_ids, vocabulary.tokenizer_json)
            await self._channel.send(encode(told))
        self.loaded = await self._await_loaded()
        vocabulary = vocabulary.resized(self.loaded.vocab_size)
        idle = {name: choice for name, choice in self.choices.grammars.items() if name not in self._grammars}
        self._compiler = Compiler(
            Task(self._grammars, vocabulary, settings.compile_bytes),
            settings.grammar,
            {name: choice.build(vocabulary=vocabulary) for name, choice in idle.items()},
            processes=settings.compile_processes,
            seconds=settings.compile_seconds,
        )
        if self._grammars:
            self._compiler.start()
        self._manager = TokenizerManager(
            self._channel,
            tokenizer,
            self.loaded,
            self.checkpoint.eos_ids,
            max_open=settings.max_running + settings.max_waiting,
            timeout=settings.request_timeout,
            compiler=self._compiler,
        )
        if self.dead is not None:  # a child that died just now found no manager to tell
            raise EngineDead(self.dead)
        for traffic in (self._manager.send_forever, self._manager.receive_forever):
            self._tasks.append(asyncio.create_task(self._until_lost(traffic)))

    @property
    def _grammars(self) -> dict[str, Choice]:
        """Those that honour something."""
        classes: dict[str, type[Grammar]] = {name: choice.load() for name, choice in self.choices.grammars.items()}
        return {name: self.choices.grammars[name] for name, grammar in classes.items() if grammar.kinds}

    async def _await_loaded(self) -> Loaded:
        """The worker's announcement, by way of the scheduler; or the error of the child that died instead."""
        announced = asyncio.create_task(self._channel.recv())
        died = asyncio.create_task(self.died.wait())
        try:
            await asyncio.wait((announced, died), return_when=asyncio.FIRST_COMPLETED)
            if announced.done() and announced.exception() is None:
                decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)
                loaded = decode(announced.result())
                assert isinstance(loaded, Loaded)
                return loaded
            await died  # a lost channel means a dead child, and that says more
            raise self._start_error()
        finally:
            for task in (announced, died):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, PeerLost):
                    await task

    def _start_error(self) -> SgframeError:
        found = (start_error(child.error, self.dead or "") for child in self._children)
        return next((error for error in found if isinstance(error, ConfigError)), EngineDead(self.dead))

    async def _until_lost(self, traffic: Callable[[], Awaitable[None]]) -> None:
        try:
            await traffic()
        except PeerLost as lost:
            # a lost channel means a dead child, and its last words say more
            self._die_later(f"the scheduler's channel is lost: {lost}")
        except Exception as error:  # nobody would be answered any more
            log.exception("the traffic with the scheduler broke off")
            self._die(f"the front failed: {error!r}")

    # -------------------------------------------------------------------------------------------- children

    def on_progress(self, child: str, progress: PulseProgress) -> None:
        if child == WORKER_CHANNEL or not child.startswith(
            WORKER
        ):  # the ranks load alike: one of them is enough to watch
            self._progress(progress.what, progress.done, progress.total)

    def on_death(self, child: str, reason: str) -> None:
        if self._closing:
            return
        error = next((one.error for one in self._children if one.name == child), "")
        if error in SECOND_HAND or (self._manager is None and not error):
            self._die_later(reason)  # it ended because another did, or may have
        else:
            self._die(reason)

    def _die_later(self, reason: str) -> None:
        """For ``reason``, unless a child tells until then what was behind it."""

        def die() -> None:
            known = (child.reason for child in self._children if child.error and child.error not in SECOND_HAND)
            self._die(next(known, reason))

        asyncio.get_running_loop().call_later(LAST_WORDS_TIME, die)

    def _die(self, reason: str) -> None:
        if self.dead is not None or self._closing:
            return
        log.error("the engine is dead: %s", reason)
        self.dead = reason
        if self._manager is not None:
            self._manager.fail(reason)
        self.died.set()

    # -------------------------------------------------------------------------------------------- service

    @property
    def manager(self) -> TokenizerManager:
        assert self._manager is not None, "the engine has not started"
        return self._manager

    @property
    def tokenizer(self) -> Tokenizer:
        return self.manager.tokenizer

    async def submit(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams,
        *,
        namespace: Namespace = (),
        priority: int = 0,
        request_id: str = "",
        lease: int = 0,
        lineage: tuple[int, ...] = (),
    ) -> Generation:
        """Queue ``prompt``, text or token ids, and return its generation; see TokenizerManager.submit for the errors.

        Raises RequestError, too, for a ``priority`` that the chosen policy would ignore.
        """
        choice = self.choices[Seam.POLICY]
        policy: type[Policy] = choice.load()
        if priority and not policy.honours_priority:
            raise RequestError(
                f"policy '{choice.name}' knows no priorities; leave the field out, or start the server with a --policy that "
                "does",
                param="priority",
            )
        return await self.manager.submit(
            prompt,
            params,
            namespace=namespace,
            priority=priority,
            request_id=request_id,
            lease=lease,
            lineage=lineage,
        )

    async def score(
        self,
        prompt: Sequence[int],
        paths: Sequence[Sequence[int]],
        *,
        namespace: Namespace = (),
        request_id: str = "",
        lease: int = 0,
        lineage: tuple[int, ...] = (),
    ) -> Scored:
        """How likely each of ``paths`` follows ``prompt``; see TokenizerManager.score."""
        return await self.manager.score(
            prompt, paths, namespace=namespace, request_id=request_id, lease=lease, lineage=lineage
        )

    async def prepare(self, constraint: Constraint) -> tuple[str, ...]:
        """Compile ``constraint`` for later requests; returns its approximations. Raises as ``submit`` would."""
        return await self.manager.prepare(constraint)

    def new_lease(self) -> int:
        """A number for a lease: what a request with it computed stays leased until it is released or revoked."""
        return self.manager.new_lease()

    def release_leases(self, leases: Sequence[int]) -> None:
        """Let go of these leases, also of those that open requests are yet to leave behind. Unknown ones are ignored."""
        self.manager.release_leases(leases)

    async def flush_cache(self) -> int:
        """Forget all cached prefixes that nothing runs on; returns how many tokens that were."""
        return await self.manager.flush_cache()

    async def describe_cache(self, limit: int = 1000, preview: int = 16) -> CacheDescription:
        """The ``limit`` nodes of the prefix cache that saved most, and the first ``preview`` tokens of each.

        The scheduler looks through the whole cache meanwhile: O(cached tokens). Raises ValueError for a limit below 1.
        """
        return await self.manager.describe_cache(limit, preview)

    def stats(self) -> SchedulerStats:
        """The scheduler's last report."""
        return self.manager.stats

    def compiler_stats(self) -> CompilerStats:
        """What became of the constraints of all requests so far."""
        assert self._compiler is not None, "the engine has not started"
        return self._compiler.stats

    def health(self) -> dict[str, ProcessHealth]:
        """Each process's last sign of life, by name; the front answers for itself by answering."""
        return {FRONT: ProcessHealth(True, 0.0, "serving", 0.0)} | {
            child.name: child.health() for child in self._children
        }

    async def drain(self) -> None:
        """Take no new requests, and wait until the open ones are done, at most ``drain_timeout`` seconds."""
        self.manager.drain()
        try:
            await asyncio.wait_for(self.manager.drained.wait(), self.settings.drain_timeout)
        except TimeoutError:
            log.warning("requests still run after %g s; aborting them", self.settings.drain_timeout)
            self.manager.abort_all("shutdown")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.manager.drained.wait(), 1.0)
            self.manager.fail("the server shut down before this request was complete")

    async def close(self) -> None:
        """End everything at once: open generations fail, processes end, nothing stays behind. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        if self._manager is not None:
            self._manager.fail("the engine was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._compiler is not None:
            await self._compiler.close()
        if self._children:
            self._channel.close()
        if self._manager is None:
            for child in self._children:  # still starting: there is no work to leave in order
                child.kill()
        await asyncio.gather(*(child.stop() for child in self._children))
        self._transport.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _journal(settings: Settings) -> AbstractContextManager[None]:
    """Holds the place of the journal's file, if one is asked for, while the engine starts."""
    if not settings.journal:
        return contextlib.nullcontext()
    from sgframe.journal import new_file  # noqa: PLC0415 (brings in the scheduler, which runs elsewhere)

    return new_file(Path(settings.journal))


def _ignore(what: str, done: int, total: int) -> None:
    pass
