"""What can be read of a program's state, while it runs and after. Reading waits; nothing is added here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from sgframe.assembly.hints import nearest
from sgframe_dsl import waiting
from sgframe_dsl.callsites import CallSite, here
from sgframe_dsl.chain import Chain
from sgframe_dsl.errors import BackendClosed, NoSuchVariable
from sgframe_dsl.feeds import Feed
from sgframe_dsl.operations import Settle
from sgframe_dsl.running import Run
from sgframe_dsl.trace import Trace
from sgframe_dsl.variables import Names, Variable

T = TypeVar("T")


class Readable:
    """The text, chat turns and variables of a program or of a branch of it.

    A read waits for what it reads and for nothing else, and raises ProgramError where that failed. Any thread may read.
    """

    def __init__(self, run: Run, chain: Chain, names: Names) -> None:
        self._run = run
        self._chain = chain
        self._names = names

    def __getitem__(self, name: str) -> Any:
        """The value of variable ``name``, as it was set last. Raises NoSuchVariable at once where nothing sets it."""
        return self._wait(self._variable(name).future).value

    def __contains__(self, name: object) -> bool:
        """Whether ``name`` is set, or will be by what is queued."""
        return name in self._names.known

    def get(self, name: str, default: Any = None) -> Any:
        """The value of ``name``, or ``default`` where nothing sets it."""
        return self[name] if name in self else default  # noqa: SIM401  # this is that get

    def meta(self, name: str) -> Any:
        """How variable ``name`` came about: GenMeta or SelectMeta; after a join the list of these."""
        return self._wait(self._variable(name).future).meta

    def text(self) -> str:
        """All text as the model sees it."""
        self.sync()
        return self._chain.transcript.text

    def messages(self) -> list[dict[str, str]]:
        """The chat turns, ``{"role": …, "content": …}``. Text outside of turns is in none."""
        self.sync()
        return self._chain.transcript.messages()

    def sync(self) -> None:
        """Wait for all that is queued. Raises ProgramError for the first that failed."""
        self._wait(self._settled())

    async def aget(self, name: str) -> Any:
        """As ``[name]``, without blocking the event loop."""
        return (await self._waited(self._variable(name).future)).value

    async def atext(self) -> str:
        """As ``text``, without blocking the event loop."""
        await self._waited(self._settled())
        return self._chain.transcript.text

    def text_iter(self, name: str | None = None) -> Iterator[str]:
        """The text of variable ``name``, or all text, that of the program too, piece by piece. It comes as it is generated
        if the run streams. All text is for those outside: inside, a program does not see its own end."""
        return iter(self._feed(name))

    def atext_iter(self, name: str | None = None) -> AsyncIterator[str]:
        """As ``text_iter``, for ``async for``."""
        return aiter(self._feed(name))

    def trace(self) -> Trace:
        """The record of the whole run; it grows as long as that goes on."""
        return self._run.trace

    @property
    def result(self) -> Any:
        """What the program's function returned."""
        return self._run.result

    @property
    def error(self) -> BaseException | None:
        """What ended the run before its time."""
        return self._run.error

    def close(self) -> None:
        """End the whole run at once: calls are aborted, states let go of, and who waits gets ProgramError."""
        self._run.close(here().error(BackendClosed("the program was closed")))

    def __format__(self, spec: str) -> str:
        raise TypeError(
            "a state cannot stand in an f-string, which would write what it looks like; use .text() or ['name']"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a state belongs to its run: it cannot be pickled or copied; s.copy() is a branch of it")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _variable(self, name: str) -> Variable:
        if not isinstance(name, str):
            raise TypeError(f"variables are named by a str, found {name!r}")
        if name not in self._names.known:
            raise self._missing(name, here())
        return self._names.known[name]

    def _missing(self, name: str, site: CallSite) -> BaseException:
        if self._run.error is not None:
            return self._run.error
        known = self._names.known
        hint = nearest(name, known) or ("; there are " + ", ".join(known) if known else "; nothing sets any")
        return NoSuchVariable(f"nothing sets a variable {name!r}{hint}", site.line, site.source)

    def _feed(self, name: str | None) -> Feed:
        if name is not None:
            return self._variable(name).feed
        if not self._run.ended.done():
            raise here().error(
                "text_iter() without a name follows a run from outside: call it on what run(stream=True) gives"
            )
        return self._chain.transcript.feed

    def _settled(self) -> Future[None]:
        """Done when all that is queued is."""
        if self._chain.left is not None:
            return self._chain.left
        settle = Settle(here())
        self._chain.put(settle)
        return settle.done

    def _wait(self, future: Future[T]) -> T:
        try:
            return waiting.wait(future, self._run.backend)
        except BaseException as error:
            self._run.noticed(error)
            raise

    async def _waited(self, future: Future[T]) -> T:
        try:
            return await waiting.waited(future)
        except BaseException as error:
            self._run.noticed(error)
            raise
