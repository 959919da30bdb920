"""The front's side of compiling: a few processes that can be killed, and a memory of what came out.

A constraint is compiled once, also when many ask for it at the same time, and one that is refused is refused again
without another try. Nobody waits for another's constraint, as long as a process is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections import OrderedDict
from hashlib import blake2b

import msgspec

from sgframe.compiling import Broken, Compiled, Outcome, Refused, Task
from sgframe.constraints import Constraint
from sgframe.errors import RequestError, RequestFailed
from sgframe.interfaces.grammar import Program
from sgframe.messages import GrammarUse

REMEMBERED_BYTES = 64 * 2**20
"""Programs and refusals that are remembered, by their size; the least recently asked for go first."""

_ENTRY_BYTES = 512


class Compiler:
    """Compiles for one engine, in at most ``processes`` processes, ``seconds`` for each constraint. Lives in one event
    loop.

    ``default`` is the grammar of constraints that name none.
    """

    def __init__(self, task: Task, default: str, *, processes: int, seconds: float) -> None:
        self._task = task
        self._default = default
        self._seconds = seconds
        self._free: asyncio.Queue[_Process | None] = asyncio.Queue()
        for _ in range(processes):
            self._free.put_nowait(None)
        self._known: OrderedDict[bytes, asyncio.Task[Outcome]] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._total = 0

    def start(self) -> None:
        """Start a process ahead of the first constraint."""
        self._free.get_nowait()
        self._free.put_nowait(_Process(self._task))

    async def compile(self, constraint: Constraint) -> tuple[GrammarUse, tuple[str, ...]]:
        """The program of ``constraint``, and where it allows more than asked.

        Raises RequestError when it cannot be honoured, RequestFailed when the grammar is at fault.
        """
        name = constraint.grammar or self._default
        if name not in self._task.grammars:
            known = ", ".join(sorted(self._task.grammars))
            raise RequestError(f"no grammar {name!r} is offered here; this server has {known}", param="grammar")
        key = blake2b(msgspec.msgpack.encode((name, constraint)), digest_size=16).digest()
        if key not in self._known:
            named = msgspec.structs.replace(constraint, grammar=name)
            self._known[key] = task = asyncio.create_task(self._outcome(named))
            task.add_done_callback(lambda task: self._remember(key, task))
        self._known.move_to_end(key)
        match await asyncio.shield(self._known[key]):
            case Compiled(program=Program(data=data, approximations=approximations)):
                return GrammarUse(name, key, data), approximations
            case Refused(message=message, code=code):
                raise RequestError(message, code=code)
            case Broken(message=message):
                raise RequestFailed(message)

    async def _outcome(self, constraint: Constraint) -> Outcome:
        process = await self._free.get() or _Process(self._task)
        try:
            if error := await process.ready():
                return Broken(f"the process that compiles constraints could not start: {error}")
            return await asyncio.wait_for(process.compile(constraint), self._seconds)
        except TimeoutError:
            took = f"longer than {self._seconds:g} s"
        except (asyncio.IncompleteReadError, OSError):
            took = "more memory than is allowed, or kills the process that does it"
        finally:
            if process.busy:  # cut short: nobody knows what it is doing
                await process.end()
            self._free.put_nowait(None if process.ended else process)
        return Refused(f"compiling the constraint takes {took}: simplify it", "grammar_too_large")

    def _remember(self, key: bytes, task: asyncio.Task[Outcome]) -> None:
        if task.cancelled() or task.exception() is not None or isinstance(task.result(), Broken):
            del self._known[key]
            return
        outcome = task.result()
        self._sizes[key] = _ENTRY_BYTES + (len(outcome.program.data) if isinstance(outcome, Compiled) else 0)
        self._total += self._sizes[key]
        while self._total > REMEMBERED_BYTES and len(self._sizes) > 1:
            oldest = next(key for key in self._known if key in self._sizes)
            del self._known[oldest]
            self._total -= self._sizes.pop(oldest)

    async def close(self) -> None:
        """End all processes; what is being compiled fails."""
        for task in self._known.values():
            task.cancel()
        await asyncio.gather(*self._known.values(), return_exceptions=True)
        while not self._free.empty():
            if (process := self._free.get_nowait()) is not None:
                await process.end()


class _Process:
    """One compiling process. ``busy``: it was given a constraint and has not answered."""

    def __init__(self, task: Task) -> None:
        self.busy = False
        self.ended = False
        self._starting = asyncio.create_task(_start(task))

    async def ready(self) -> str:
        """Wait until it has started; why it could not, or nothing."""
        try:
            await asyncio.shield(self._starting)
        except OSError as error:
            self.ended = True
            return f"{error}; its own words are on standard error"
        return ""

    async def compile(self, constraint: Constraint) -> Outcome:
        """Raises IncompleteReadError or OSError when the process dies."""
        self.busy = True
        process = self._starting.result()
        _send(process, msgspec.msgpack.encode(constraint))
        outcome: Outcome = msgspec.msgpack.decode(await _receive(process), type=Outcome)
        self.busy = False
        return outcome

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.ended = True
        with contextlib.suppress(OSError):
            process = await self._starting
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _start(task: Task) -> asyncio.subprocess.Process:
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "sgframe.compiling"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # a Ctrl-C at the terminal is the parent's to deal with
    )
    _send(process, msgspec.msgpack.encode(task))
    try:
        await _receive(process)
    except asyncio.IncompleteReadError:
        raise ChildProcessError(f"it ended with code {await process.wait()}") from None
    return process


def _send(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(data).to_bytes(8, "little") + data)


async def _receive(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readexactly(int.from_bytes(await process.stdout.readexactly(8), "little"))
