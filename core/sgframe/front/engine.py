"""``Engine``: the engine for plain Python, in a script, a thread or a notebook."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from sgframe.assembly.assemble import assemble
from sgframe.assembly.choice import Choices
from sgframe.assembly.settings import Settings
from sgframe.errors import EngineDead
from sgframe.front.async_engine import AsyncEngine
from sgframe.front.outputs import Delta, Result, collect
from sgframe.interfaces.source import Progress, Tokenizer
from sgframe.messages import CacheDescription
from sgframe.sampling import SamplingParams
from sgframe.statistics import SchedulerStats

T = TypeVar("T")
Prompt = str | Sequence[int]


class Engine:
    """A model ready to generate, in processes of its own.

    >>> with Engine(model="smollm2-135m") as engine:
    ...     print(engine.generate("The capital of France is", SamplingParams(max_tokens=8, temperature=0)).text)

    Takes the settings of ``sgframe serve`` as keyword arguments (``backend="cpu"``, ``max_running=16``, ``plugin={"lpm":
    {"max_overtaken": 4096}}``), and ``config`` for a file of them. All methods may be called from any thread; the ``a…``
    methods from any event loop. Logging in the caller's process is the caller's; ``log_level`` is that of the
    engine's processes, ``warning`` by default. Raises ConfigError when it cannot start.
    """

    def __init__(self, *, config: str | Path | None = None, **settings: Any) -> None:
        configuration, choices = assemble(settings, Path(config) if config else None, os.environ)
        chosen = configuration.settings
        if configuration.origins["log_level"] == "default":
            chosen = chosen.model_copy(update={"log_level": "warning"})
        self._start(chosen, choices, None)

    @classmethod
    def start(cls, settings: Settings, choices: Choices, progress: Progress | None = None) -> Engine:
        """An engine from settings and parts that are chosen already; ``progress`` as in ``AsyncEngine.start``."""
        engine = cls.__new__(cls)
        engine._start(settings, choices, progress)
        return engine

    def _start(self, settings: Settings, choices: Choices, progress: Progress | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sgframe::engine", daemon=True)
        self._thread.start()
        self._closed = False
        try:
            self._engine = self._run(AsyncEngine.start(settings, choices, progress))
        except BaseException:
            self._stop_loop()
            raise

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer: ``encode``, the bytes of each token, the chat template."""
        return self._engine.tokenizer

    # -------------------------------------------------------------------------------------------- synchronous

    @overload
    def generate(self, prompts: str, params: SamplingParams | None = None) -> Result: ...  # type: ignore[overload-overlap]
    @overload
    def generate(self, prompts: Sequence[int], params: SamplingParams | None = None) -> Result: ...
    @overload
    def generate(self, prompts: Sequence[Prompt], params: SamplingParams | None = None) -> list[Result]: ...

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: SamplingParams | None = None
    ) -> Result | list[Result]:
        """Generate from one prompt (text or token ids), or from a list of them at once. Blocks until all are done."""
        return self._run(self._generate(prompts, params or SamplingParams()))

    def stream(self, prompt: Prompt, params: SamplingParams | None = None) -> Iterator[Delta]:
        """Generate from one prompt, piece by piece. Leaving the loop early aborts the rest."""
        pieces: queue.SimpleQueue[Delta | BaseException | None] = queue.SimpleQueue()
        pump = self.run_coroutine(self._pump(prompt, params or SamplingParams(), pieces.put))
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            pump.cancel()

    # -------------------------------------------------------------------------------------------- asynchronous

    async def agenerate(self, prompt: Prompt, params: SamplingParams | None = None) -> Result:
        """As ``generate``, for one prompt, without blocking the caller's event loop."""
        work = self._generate_one(prompt, params or SamplingParams())
        return await asyncio.wrap_future(self.run_coroutine(work))

    async def astream(self, prompt: Prompt, params: SamplingParams | None = None) -> AsyncIterator[Delta]:
        """As ``stream``, without blocking the caller's event loop."""
        caller = asyncio.get_running_loop()
        pieces: asyncio.Queue[Delta | BaseException | None] = asyncio.Queue()

        def put(piece: Delta | BaseException | None) -> None:
            caller.call_soon_threadsafe(pieces.put_nowait, piece)

        pump = self.run_coroutine(self._pump(prompt, params or SamplingParams(), put))
        try:
            while (piece := await pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            pump.cancel()

    # -------------------------------------------------------------------------------------------- for frontends

    @property
    def asynchronous(self) -> AsyncEngine:
        """The engine within, to be called in its own event loop alone: from a coroutine given to ``run_coroutine``."""
        return self._engine

    def run_coroutine(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` in the engine's event loop. Raises EngineDead after ``close``."""
        if self._loop.is_closed():
            work.close()
            raise EngineDead("the engine was closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # -------------------------------------------------------------------------------------------- life

    def flush_cache(self) -> int:
        """Forget all cached prefixes that nothing runs on; returns how many tokens that were."""
        return self._run(self._engine.flush_cache())

    def describe_cache(self, limit: int = 1000, preview: int = 16) -> CacheDescription:
        """The ``limit`` nodes of the prefix cache that saved most computation, and the first ``preview`` tokens of each."""
        return self._run(self._engine.describe_cache(limit, preview))

    def stats(self) -> SchedulerStats:
        """The scheduler's last report: requests, slots, counters."""
        return self._engine.stats()

    def close(self) -> None:
        """End the engine and its processes. Open generations fail with EngineDead. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._run(self._engine.close())
            self._stop_loop()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------- in the loop's thread

    async def _generate(self, prompts: Prompt | Sequence[Prompt], params: SamplingParams) -> Result | list[Result]:
        if isinstance(prompts, str) or all(isinstance(token, int) for token in prompts):
            return await self._generate_one(prompts, params)  # type: ignore[arg-type]  # no element is a prompt
        tasks = [asyncio.create_task(self._generate_one(prompt, params)) for prompt in prompts]  # type: ignore[arg-type]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # when one has failed, the others' results have nowhere to go
                task.cancel()

    async def _generate_one(self, prompt: Prompt, params: SamplingParams) -> Result:
        async with await self._engine.submit(prompt, params) as generation:
            return Result(generation.prompt_tokens, await collect(generation))

    async def _pump(
        self, prompt: Prompt, params: SamplingParams, put: Callable[[Delta | BaseException | None], None]
    ) -> None:
        try:
            async with await self._engine.submit(prompt, params) as generation:
                async for delta in generation:
                    put(delta)
            put(None)
        except Exception as error:
            put(error)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.run_coroutine(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
