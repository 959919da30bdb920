"""Constraints to programs, for all requests of one engine: each is compiled once, and what came out is remembered.

Many that ask for one constraint at the same time wait for the same compilation, and one that was refused is refused again
without another try. What nobody waits for any more is given up.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from sgframe.compiling import Broken, Compiled, Outcome, Refused, Task, attempt
from sgframe.constraints import Constraint
from sgframe.errors import Overloaded, RequestError, RequestFailed, SgframeError
from sgframe.front.compile_pool import TOO_LARGE, CompilePool
from sgframe.interfaces.grammar import Grammar, Program
from sgframe.messages import GrammarUse

REMEMBERED_BYTES = 64 * 2**20
"""Programs and refusals that are remembered, by their size; the least recently asked for go first."""

MOST_PENDING = 256
"""Constraints that are compiled or wait for it at one time; further ones are turned away."""

TRIED_AGAIN_AFTER = 60.0
"""Seconds after which what was too large may be tried again: the machine may have been busy."""

_ENTRY_BYTES = 512


@dataclass(slots=True)
class CompilerStats:
    """What became of constraints since the start, each counted when it was compiled: not those that were remembered.

    ``seconds`` is the time that their compilation took, with the wait for a process.
    """

    compiled: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    pending: int = 0
    remembered: int = 0
    """Requests that were answered from memory."""


class Compiler:
    """Compiles by the grammars of ``task`` in at most ``processes`` processes, ``seconds`` for each constraint. Lives in
    one event loop.

    ``default`` is the grammar of constraints that name none; ``idle`` are grammars that honour nothing and say so.
    """

    def __init__(
        self, task: Task, default: str, idle: Mapping[str, Grammar] | None = None, *, processes: int, seconds: float
    ) -> None:
        self.stats = CompilerStats()
        self._default = default
        self._idle = idle or {}
        self._offered = sorted({*task.grammars, *self._idle})
        self._pool = CompilePool(task, processes, seconds)
        self._known: OrderedDict[bytes, asyncio.Task[Outcome]] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._total = 0
        self._waiters: Counter[bytes] = Counter()
        self._closed: SgframeError | None = None

    def start(self) -> None:
        """Start a process ahead of the first constraint."""
        self._pool.start()

    async def compile(self, constraint: Constraint) -> tuple[GrammarUse, tuple[str, ...]]:
        """The program of ``constraint``, and where it allows more than asked.

        Raises RequestError when it cannot be honoured, RequestFailed when the grammar is at fault, Overloaded when too many
        are being compiled, and what ``shut`` was given.
        """
        name = constraint.grammar or self._default
        if name not in self._offered:
            known = ", ".join(self._offered)
            raise RequestError(f"no grammar {name!r} is offered here; this server has {known}", param="grammar")
        named = msgspec.structs.replace(constraint, grammar=name)
        key = blake2b(msgspec.msgpack.encode(named), digest_size=16).digest()
        match await self._wait(key, named):
            case Compiled(program=Program(data=data, approximations=approximations)):
                return GrammarUse(name, key, data), approximations
            case Refused(message=message, code=code):
                raise RequestError(message, code=code)
            case Broken(message=message):
                raise RequestFailed(message)

    async def _wait(self, key: bytes, constraint: Constraint) -> Outcome:
        if self._closed is not None:
            raise self._closed
        if key not in self._known:
            self._begin(key, constraint)
        elif key in self._sizes:
            self.stats.remembered += 1
        task = self._known[key]
        self._known.move_to_end(key)
        self._waiters[key] += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and self._closed is not None:
                raise self._closed from None
            raise
        finally:
            self._waiters[key] -= 1
            if not self._waiters[key]:
                del self._waiters[key]
                task.cancel()  # of no effect when it is done

    def _begin(self, key: bytes, constraint: Constraint) -> None:
        if self.stats.pending >= MOST_PENDING:
            raise Overloaded(f"{MOST_PENDING} constraints are being compiled; try again later")
        self.stats.pending += 1
        self._known[key] = task = asyncio.create_task(self._outcome(constraint))
        task.add_done_callback(lambda task: self._end(key, task))

    async def _outcome(self, constraint: Constraint) -> Outcome:
        if constraint.grammar in self._idle:
            return attempt(self._idle, constraint)
        started = time.monotonic()
        outcome = await self._pool.compile(constraint)
        self.stats.seconds += time.monotonic() - started
        return outcome

    def _end(self, key: bytes, task: asyncio.Task[Outcome]) -> None:
        """Count what became of it, and remember it unless it may come out otherwise another time."""
        self.stats.pending -= 1
        if task.cancelled():
            del self._known[key]
            return
        match task.exception() or task.result():
            case Compiled(program=program):
                self.stats.compiled += 1
                self._remember(key, len(program.data))
            case Refused(code=code):
                self.stats.refused += 1
                self._remember(key, 0)
                if code == TOO_LARGE:
                    asyncio.get_running_loop().call_later(TRIED_AGAIN_AFTER, self._forget, key)
            case _:
                self.stats.failed += 1
                del self._known[key]

    def _remember(self, key: bytes, size: int) -> None:
        self._sizes[key] = _ENTRY_BYTES + size
        self._total += self._sizes[key]
        while self._total > REMEMBERED_BYTES and len(self._sizes) > 1:
            self._forget(next(key for key in self._known if key in self._sizes))

    def _forget(self, key: bytes) -> None:
        if key in self._sizes:
            del self._known[key]
            self._total -= self._sizes.pop(key)

    def shut(self, reason: SgframeError) -> None:
        """Compile nothing more: who waits and who comes gets ``reason``."""
        if self._closed is None:
            self._closed = reason
            for key in self._waiters:
                self._known[key].cancel()

    async def close(self) -> None:
        """End all processes."""
        for task in self._known.values():
            task.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)
        await self._pool.close()
