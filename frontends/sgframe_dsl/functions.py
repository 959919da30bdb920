"""Programs: functions of a state, alone or with some of their arguments, and the ways to run them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, overload

from sgframe_dsl import batch, waiting
from sgframe_dsl.backend import Backend
from sgframe_dsl.defaults import chosen_backend
from sgframe_dsl.execution import Execution
from sgframe_dsl.options import Sampling, sampling_params
from sgframe_dsl.running import Run
from sgframe_dsl.state import State
from sgframe_dsl.streams import Stream

if TYPE_CHECKING:
    from sgframe.front.engine import Engine

    OnBackend = Backend | Engine | None
    """What to run on; None is the default, see ``set_default_backend``."""

RESERVED = ("backend", "stream", "sampling")
"""Arguments of ``run`` itself."""


def function(program: Callable[..., Any]) -> Function:
    """``@sgf.function``: the program ``def program(s, …)``, which may be ``async``.

    Raises ValueError for an argument that has the name of one of ``run``'s own, TypeError for a generator.
    """
    if inspect.isgeneratorfunction(program) or inspect.isasyncgenfunction(program):
        raise TypeError(
            f"{program.__name__} yields, so that to call it would run nothing; a program writes to its state"
        )
    if taken := [name for name in inspect.signature(program).parameters if name in RESERVED]:
        raise ValueError(
            f"a program cannot be run: run() has an argument {taken[0]!r} of its own; rename the program's"
        )
    return Function(program)


def bind(program: Function, /, *args: Any, **kwargs: Any) -> Function:
    """``program.bind(*args, **kwargs)``."""
    return program.bind(*args, **kwargs)


class Function:
    """A program. Its runs give states; text, variables and trace are readable when the backend has let go of everything.

    Every run takes a ``backend`` (a Backend or a sgframe.Engine; else the default, see ``set_default_backend``) and
    ``sampling``, options for each ``gen`` that does not say otherwise.
    """

    def __init__(self, program: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = {}) -> None:
        functools.update_wrapper(self, program)
        self._program = program
        self._args = args
        self._kwargs = dict(kwargs)
        self._name = getattr(program, "__name__", type(program).__name__)
        self._is_async = inspect.iscoroutinefunction(program)

    def __call__(self, state: State, /, *args: Any, **kwargs: Any) -> Any:
        """Go on with ``state``: a program in a program."""
        return self._program(state, *self._args, *args, **{**self._kwargs, **kwargs})

    def bind(self, /, *args: Any, **kwargs: Any) -> Function:
        """This program with these arguments given. Raises TypeError for some that it does not take."""
        bound = Function(self._program, (*self._args, *args), {**self._kwargs, **kwargs})
        inspect.signature(self._program).bind_partial(None, *bound._args, **bound._kwargs)
        return bound

    @overload
    def run(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: Literal[False] = False,
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> State: ...
    @overload
    def run(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: Literal[True],
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> Stream: ...

    def run(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: bool = False,
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> State | Stream:
        """Run the program; returns its state when all is done.

        Raises ProgramError for the first operation that failed without the program's meeting the error, and what the program
        raises. With ``stream`` it goes on in a thread of its own: returns at once, and ``text_iter`` tells the text as it
        comes.
        """
        execution = self._execution(args, kwargs, backend, sampling, stream)
        if stream:
            return execution.in_background()
        execution.go()
        return execution.state

    @overload
    async def arun(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: Literal[False] = False,
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> State: ...
    @overload
    async def arun(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: Literal[True],
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> Stream: ...

    async def arun(
        self,
        /,
        *args: Any,
        backend: OnBackend = None,
        stream: bool = False,
        sampling: Sampling | None = None,
        **kwargs: Any,
    ) -> State | Stream:
        """As ``run``, without blocking the event loop: an async program runs in it, another one in a thread. Cancelled, it
        closes the run."""
        execution = self._execution(args, kwargs, backend, sampling, stream)
        if stream:
            return execution.in_task() if self._is_async else execution.in_background()
        await execution.ago()
        return execution.state

    def run_batch(
        self,
        items: Iterable[Any],
        *,
        backend: OnBackend = None,
        concurrency: int = batch.CONCURRENCY,
        progress: bool = False,
        sampling: Sampling | None = None,
    ) -> list[State]:
        """Run the program once for each of ``items``: a dict of arguments by name, a tuple by place, or a single one.

        Returns the states in the order of the items. One that fails has its ``error``, and the others go on. At most
        ``concurrency`` run at a time; ``progress`` shows a bar on standard error.
        """
        if self._is_async:
            many = self.arun_batch(
                items, backend=backend, concurrency=concurrency, progress=progress, sampling=sampling
            )
            return waiting.own_loop(many)
        batch.check_concurrency(concurrency)
        runs = self._executions(items, backend, sampling)
        with batch.progress_bar(self._name, len(runs), progress) as advance:

            def job(execution: Execution) -> None:
                with suppress(Exception):  # the state has it
                    execution.go()
                advance(execution.state.error is not None)

            jobs = [functools.partial(job, execution) for execution in runs]
            batch.in_threads(jobs, concurrency, lambda: _close(runs))
        return [execution.state for execution in runs]

    async def arun_batch(
        self,
        items: Iterable[Any],
        *,
        backend: OnBackend = None,
        concurrency: int = batch.CONCURRENCY,
        progress: bool = False,
        sampling: Sampling | None = None,
    ) -> list[State]:
        """As ``run_batch``, without blocking the event loop."""
        batch.check_concurrency(concurrency)
        runs = self._executions(items, backend, sampling)
        with batch.progress_bar(self._name, len(runs), progress) as advance:

            async def job(execution: Execution) -> None:
                with suppress(Exception):
                    await execution.ago()
                advance(execution.state.error is not None)

            await batch.in_loop([functools.partial(job, execution) for execution in runs], concurrency)
        return [execution.state for execution in runs]

    def _executions(self, items: Iterable[Any], backend: OnBackend, sampling: Sampling | None) -> list[Execution]:
        return [self._execution(*batch.arguments(item), backend, sampling) for item in items]

    def _execution(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        backend: OnBackend,
        sampling: Sampling | None,
        stream: bool = False,
    ) -> Execution:
        options = sampling or {}
        sampling_params("sampling", options)
        run = Run(self._name, chosen_backend(backend), options, stream)
        return Execution(lambda state: self(state, *args, **kwargs), self._is_async, run)


def _close(runs: Iterable[Execution]) -> None:
    interrupted = KeyboardInterrupt()
    for execution in runs:
        execution.close(interrupted)
