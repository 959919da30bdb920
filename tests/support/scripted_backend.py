"""A Backend in memory that answers by a script: what a prompt ends with decides what comes, when, or how it fails.

Text is rendered as it is, a turn as ``<role>…</role>``. A token is a character.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backend import Backend
from sgframe_dsl.errors import BackendClosed
from sgframe_programs.parts import Begin, Branch, Cost, End, Generated, Method, Output, Part, Selected, Text

T = TypeVar("T")
Answer = str | list[str] | Exception
"""A text, ``n`` texts, or how the call fails."""


@dataclass
class Live:
    """A state: its text, the turn that is open, and where its own text begins."""

    text: str = ""
    role: str = ""
    forked_at: int = 0


@dataclass
class Gate:
    """Holds calls until it is opened; ``reached`` tells that one stands before it."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        self.opened.set()


class ScriptedBackend(Backend):
    """``answers`` and ``gates`` go by the end of the prompt, the longest that fits; without an answer it is ``default``.

    Attributes:
        calls: (what, prompt) of each ``generate`` and ``select``, and (what, text added) of each ``extend``, as they came.
        params: of each ``generate``.
        states: those that were opened and not discarded.
        aborted: prompts of calls that were cancelled.
        broken: what all calls raise from now on, if anything.
    """

    knows_prefixes = True

    def __init__(self, answers: dict[str, Answer] | None = None, default: str = " ok") -> None:
        self.answers = answers or {}
        self.default = default
        self.gates: dict[str, Gate] = {}
        self.calls: list[tuple[str, str]] = []
        self.params: list[SamplingParams] = []
        self.prepared: list[Constraint] = []
        self.refused: Exception | None = None
        self.states: dict[int, Live] = {}
        self.aborted: list[str] = []
        self.broken: Exception | None = None
        self.delay = 0.0
        self._numbers = iter(range(1, 10**9))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted", daemon=True)
        self._thread.start()

    def hold(self, prompt_end: str) -> Gate:
        """Hold the calls whose prompt ends so."""
        return self.gates.setdefault(prompt_end, Gate())

    def said(self, what: str) -> list[str]:
        """The prompts, or texts, of the calls of one kind."""
        return [text for kind, text in self.calls if kind == what]

    def tasks(self) -> int:
        """Coroutines that run now, beside the one that counts."""
        return self.schedule(_count_tasks()).result(5)

    # -------------------------------------------------------------------------------------------- Backend

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop.is_closed():
            work.close()
            raise BackendClosed("the scripted backend was closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def open(self) -> int:
        self._check()
        self.states[number := next(self._numbers)] = Live()
        return number

    async def fork(self, state: int, count: int) -> list[int]:
        self._check()
        await asyncio.sleep(0)
        live = self.states[state]
        numbers = [next(self._numbers) for _ in range(count)]
        self.states |= {number: Live(live.text, live.role, len(live.text)) for number in numbers}
        return numbers

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        assert parts, "an empty request"
        rendered = self._add(state, parts)
        self.calls.append(("extend", rendered))
        await asyncio.sleep(self.delay)
        return rendered

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        rendered = self._add(state, parts)
        live = self.states[state]
        prompt = live.text
        self.params.append(params)
        self.calls.append(("generate", prompt))
        with self._watched(prompt):
            await self._come(prompt)
            texts = self._answer(prompt)
            texts = texts if isinstance(texts, list) else [texts] * params.n
            if on_text:
                for at in range(0, len(texts[0]), 2):
                    on_text(texts[0][at : at + 2])
                    await asyncio.sleep(0)
        live.text += texts[0]
        outputs = [output_of(text, params) for text in texts]
        return Generated(outputs, Cost(len(prompt), 0, sum(map(len, texts))), rendered)

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        rendered = self._add(state, parts)
        live = self.states[state]
        prompt = live.text
        self.calls.append(("select", prompt))
        with self._watched(prompt):
            await self._come(prompt)
            wanted = self._answer(prompt)
        index = choices.index(wanted) if wanted in choices else 0
        live.text += choices[index]
        return Selected(
            index=index,
            scores=[0.0 if at == index else -1.0 for at in range(len(choices))],
            tokens=[[ord(char) for char in choice] for choice in choices],
            logprobs=[[-0.5] * len(choice) for choice in choices],
            cost=Cost(len(prompt), 0, scored_tokens=sum(map(len, choices))),
            rendered=rendered,
        )

    async def prepare(self, constraint: Constraint) -> None:
        self.prepared.append(constraint)
        if self.refused:
            raise self.refused

    async def discard(self, states: Sequence[int]) -> None:
        for state in states:
            self.states.pop(state, None)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # -------------------------------------------------------------------------------------------- how

    def _check(self) -> None:
        if self.broken:
            raise self.broken

    def _add(self, state: int, parts: Sequence[Part]) -> str:
        self._check()
        live = self.states[state]
        rendered = "".join(self._render(live, part) for part in parts)
        live.text += rendered
        return rendered

    def _render(self, live: Live, part: Part) -> str:
        match part:
            case Text(text):
                return text
            case Begin(role):
                live.role = role
                return f"<{role}>"
            case End():
                role, live.role = live.role, ""
                return f"</{role}>"
            case Branch(state):
                branch = self.states[state]
                return branch.text[branch.forked_at :]

    async def _come(self, prompt: str) -> None:
        await asyncio.sleep(self.delay)
        if gate := _by_end(self.gates, prompt):
            gate.reached.set()
            while not gate.opened.is_set():
                await asyncio.sleep(0.001)

    def _answer(self, prompt: str) -> Any:
        answer = _by_end(self.answers, prompt)
        if isinstance(answer, Exception):
            raise answer
        return self.default if answer is None else answer

    @contextmanager
    def _watched(self, prompt: str) -> Iterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            self.aborted.append(prompt)
            raise


def output_of(text: str, params: SamplingParams) -> Output:
    """``text``, cut at ``max_tokens`` characters."""
    cut = params.max_tokens is not None and len(text) > params.max_tokens
    text = text[: params.max_tokens] if cut else text
    return Output(text, [ord(char) for char in text], "length" if cut else "stop")


def refusal(message: str = "scripted") -> RequestError:
    """How a backend refuses a request."""
    return RequestError(message)


def _by_end(table: dict[str, Any], prompt: str) -> Any:
    return max(((end, value) for end, value in table.items() if prompt.endswith(end)), key=_length, default=("", None))[
        1
    ]


def _length(entry: tuple[str, Any]) -> int:
    return len(entry[0])


async def _count_tasks() -> int:
    return len(asyncio.all_tasks()) - 1


@contextmanager
def scripted_backend() -> Iterator[ScriptedBackend]:
    """A backend on which, in the end, nothing may be left: no state, no task, no thread of a program."""
    backend = ScriptedBackend()
    try:
        yield backend
        assert backend.states == {}
        until = time.monotonic() + 2  # a task that has done its work may not have ended yet
        while backend.tasks() and time.monotonic() < until:
            time.sleep(0.001)
        assert backend.tasks() == 0
        for thread in threading.enumerate():
            if thread.name.startswith("sgframe::program"):
                thread.join(1)
                assert not thread.is_alive()
    finally:
        backend.close()
