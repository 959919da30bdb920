"""The processes that compile constraints, as their parent sees them: few, replaced when they die, killed when they take
too long.

Small constraints go first: what a client of large ones asks for keeps nobody else waiting for more than one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import os
import sys

import msgspec

from sgframe.compiling import Broken, Outcome, Refused, Task
from sgframe.constraints import Constraint

TOO_LARGE = "grammar_too_large"


class CompilePool:
    """At most ``processes`` processes, each for one constraint at a time and at most ``seconds``. Lives in one loop."""

    def __init__(self, task: Task, processes: int, seconds: float) -> None:
        self._task = task
        self._seconds = seconds
        self._turns = processes
        self._spare: list[_Process] = []
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def start(self) -> None:
        """Start a process ahead of the first constraint."""
        self._spare.append(_Process(self._task))

    async def compile(self, constraint: Constraint) -> Outcome:
        """Compile when it is this one's turn; a process that dies of it is given a second chance."""
        await self._turn(len(constraint.text))
        try:
            return await self._attempt(constraint) or await self._attempt(constraint) or _refused("kills its process")
        finally:
            self._give_turn()

    async def _turn(self, size: int) -> None:
        if self._turns:
            self._turns -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (size, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had just come
                self._give_turn()
            raise

    def _give_turn(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[-1]
            if not turn.done():
                turn.set_result(None)
                return
        self._turns += 1

    async def _attempt(self, constraint: Constraint) -> Outcome | None:
        """One try; None when the process died of it."""
        process = self._spare.pop() if self._spare else _Process(self._task)
        try:
            if error := await process.ready():
                return Broken(f"the process that compiles constraints could not start: {error}")
            return await asyncio.wait_for(process.compile(constraint), self._seconds)
        except TimeoutError:
            return _refused(f"takes longer than {self._seconds:g} s")
        except (asyncio.IncompleteReadError, OSError):
            return None
        finally:
            if process.busy:  # cut short: nobody knows what it is doing
                await process.end()
            if not process.ended:
                self._spare.append(process)

    async def close(self) -> None:
        """End the processes that have nothing to do; the others end with what they are doing, cancelled."""
        while self._spare:
            await self._spare.pop().end()


def _refused(why: str) -> Refused:
    return Refused(f"compiling the constraint {why}: simplify it", TOO_LARGE)


class _Process:
    """One compiling process. ``busy``: it was given a constraint and has not answered. ``ended``: it is of no more use."""

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
        """Raises IncompleteReadError or OSError when the process dies, or has died."""
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
