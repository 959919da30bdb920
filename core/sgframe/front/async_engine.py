"""The engine for asyncio callers: starts the processes, serves generations, knows when one died, and cleans up.

What runs on top of it (the HTTP server, the DSL, ``Engine``) sees text, Deltas and errors, never a process or a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from sgframe.assembly.choice import Choice, Choices
from sgframe.assembly.providers import Seam
from sgframe.assembly.settings import Settings
from sgframe.compiling import Task
from sgframe.constraints import Constraint
from sgframe.errors import ConfigError, PeerLost, RequestError
from sgframe.front.compiler import Compiler, CompilerStats
from sgframe.front.generation import Generation
from sgframe.front.letters import scheduler_letter, worker_letters
from sgframe.front.replicas import Replicas
from sgframe.front.scoring import Scored
from sgframe.front.threads import in_thread
from sgframe.front.tokenizer_manager import TokenizerManager
from sgframe.front.vocabulary import vocabulary_of
from sgframe.interfaces.grammar import Grammar
from sgframe.interfaces.launcher import ProcessHealth
from sgframe.interfaces.policy import Policy
from sgframe.interfaces.source import Checkpoint, ModelSource, Progress, Tokenizer
from sgframe.letter import Letter
from sgframe.messages import CacheDescription, Loaded, Namespace, UseVocabulary, encode
from sgframe.sampling import SamplingParams
from sgframe.statistics import SchedulerStats

log = logging.getLogger(__name__)

T = TypeVar("T")
FRONT = "front"


class AsyncEngine:
    """A running engine. Make it by ``await AsyncEngine.start(...)`` in the event loop that will use it; ``close`` it.

    Attributes:
        settings: what it was started with.
        choices: the part that fills each seam, and those in shadow.
        checkpoint: the model on disk.
        loaded: what the worker announced: vocabulary, context, KV slots, memory ledger. Of several replicas that with the
            fewest slots.
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
        self._replicas: Replicas | None = None
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
            try:
                await engine._start(source)
            except BaseException:
                await engine.close()
                raise
        return engine

    async def _start(self, source: ModelSource) -> None:
        settings = self.settings
        launcher = self.choices[Seam.LAUNCHER].build()
        self._replicas = Replicas(launcher, settings.replicas, self._letters, self._progress, self._die)
        await self._replicas.launch()
        tokenizer = await in_thread(lambda: source.tokenizer(self.checkpoint))
        vocabulary = vocabulary_of(tokenizer, tokenizer.vocab_size, self.checkpoint.eos_ids)
        told = UseVocabulary(vocabulary.tokens, vocabulary.stop_ids, vocabulary.tokenizer_json)
        self.loaded = await self._replicas.load(encode(told) if self._grammars else b"")
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
            self._replicas.serve(),
            tokenizer,
            self.loaded,
            self.checkpoint.eos_ids,
            max_open=settings.replicas * (settings.max_running + settings.max_waiting),
            timeout=settings.request_timeout,
            compiler=self._compiler,
        )
        for traffic in (self._manager.send_forever, self._manager.receive_forever):
            self._tasks.append(asyncio.create_task(self._until_lost(traffic)))

    def _letters(self, replica: int) -> list[Letter]:
        about = self.settings, self.choices, self.checkpoint
        return [scheduler_letter(*about, self._grammars, replica), *worker_letters(*about, replica)]

    @property
    def _grammars(self) -> dict[str, Choice]:
        """Those that honour something."""
        classes: dict[str, type[Grammar]] = {name: choice.load() for name, choice in self.choices.grammars.items()}
        return {name: self.choices.grammars[name] for name, grammar in classes.items() if grammar.kinds}

    async def _until_lost(self, traffic: Callable[[], Awaitable[None]]) -> None:
        try:
            await traffic()
        except PeerLost as lost:
            assert self._replicas is not None
            self._replicas.on_channel_lost(0, lost)  # there is no other
        except Exception as error:  # nobody would be answered any more
            log.exception("the traffic with the scheduler broke off")
            self._die(f"the front failed: {error!r}")

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

    def replica_states(self) -> dict[str, int]:
        """How many replicas are ``serving``, and how many ``lost`` and yet to come back."""
        assert self._replicas is not None, "the engine has not started"
        return self._replicas.states()

    def health(self) -> dict[str, ProcessHealth]:
        """Each process's last sign of life, by name; the front answers for itself by answering.

        The processes of a replica that was lost while others go on are left out.
        """
        assert self._replicas is not None, "the engine has not started"
        return {FRONT: ProcessHealth(True, 0.0, "serving", 0.0), **self._replicas.health()}

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
        if self._replicas is not None:
            await self._replicas.close()


def _journal(settings: Settings) -> AbstractContextManager[None]:
    """Holds the place of the journal's file, if one is asked for, while the engine starts."""
    if not settings.journal:
        return contextlib.nullcontext()
    from sgframe.journal import new_file  # noqa: PLC0415 (brings in the scheduler, which runs elsewhere)

    return new_file(Path(settings.journal))


def _ignore(what: str, done: int, total: int) -> None:
    pass
