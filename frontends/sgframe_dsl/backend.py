"""What a program runs on: an engine in this process, a server of ours, or any OpenAI-compatible endpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from sgframe.constraints import Constraint
from sgframe.sampling import SamplingParams
from sgframe_programs.parts import Generated, Method, Part, Selected

T = TypeVar("T")


class Backend(ABC):
    """Runs the states of programs. A state is a number; it has the text and tokens that were added to it.

    The coroutines run in the backend's own event loop, by ``schedule``. Calls on one state come one after the other; those
    on different states may overlap. A cancelled call ends its work on the other side. All of them raise subclasses of
    SgframeError; a state on which a call failed can only be closed.
    """

    knows_prefixes: ClassVar[bool]
    """Whether states are prefix handles on the other side; if not, each call sends the whole text."""

    @abstractmethod
    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` in the backend's event loop. Raises BackendClosed."""

    @abstractmethod
    async def open(self) -> int:
        """A new state with nothing in it."""

    @abstractmethod
    async def fork(self, state: int, count: int) -> list[int]:
        """``count`` new states that stand where ``state`` does."""

    @abstractmethod
    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        """Add ``parts``; nothing is computed. Returns their text as the model will see it."""

    @abstractmethod
    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        """Add ``parts``, then generate; the state goes on with the first output. ``on_text`` hears its pieces."""

    @abstractmethod
    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        """Add ``parts``, then the choice that ``method`` scores highest, of equals the first."""

    @abstractmethod
    async def prepare(self, constraint: Constraint) -> None:
        """A later ``generate`` will have this constraint: compile it meanwhile. Raises what that would."""

    @abstractmethod
    async def discard(self, states: Sequence[int]) -> None:
        """Let go of states, and end what still runs on them. Unknown ones are ignored. Never raises."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back. Calls that are open fail with BackendClosed. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
