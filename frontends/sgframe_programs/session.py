"""The live states of one client: they grow, fork, generate and choose; with the session they end, and their leases.

Knows nothing of how the client reaches it. All of it runs in the engine's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, Overloaded, RequestError
from sgframe.front.async_engine import AsyncEngine
from sgframe.messages import Namespace
from sgframe.sampling import SamplingParams
from sgframe_programs.calls import Calls
from sgframe_programs.content import Content
from sgframe_programs.encoding import Encoder
from sgframe_programs.parts import Branch, Generated, Method, Part, Selected, Text
from sgframe_programs.state import State

T = TypeVar("T")
LONGEST_TOKEN = 128
"""Characters. A text longer than this for each token of the context is refused before it is encoded."""
MOST_CHOICES = 4096
"""Each costs an encoding of the text before it, from near its end on."""


class Session:
    """States by the client's own numbers, so that it need not wait to be told them.

    Calls on one state come one after the other, those on different states may overlap. A call that fails leaves a state
    that can only be discarded. All raise RequestError for a state that is not there, is busy or has failed.
    """

    def __init__(self, engine: AsyncEngine, *, namespace: Namespace = (), most_states: int = 4096) -> None:
        self._engine = engine
        self._most_states = most_states
        self._most_characters = engine.loaded.context_length * LONGEST_TOKEN
        self._encoder = Encoder(engine.tokenizer)
        self._calls = Calls(engine, namespace, self._encoder.start)
        self._states: dict[int, State] = {}

    def open(self, state: int) -> None:
        """A new state with nothing in it. Raises RequestError for a number in use, Overloaded for one state too many."""
        self._check_new([state])
        self._states[state] = State(Content(self._engine.tokenizer, self._encoder))

    def fork(self, state: int, into: Sequence[int]) -> None:
        """New states that stand where ``state`` does; nothing is computed. Raises as ``open``."""
        parent = self._idle(state)
        self._check_new(into)
        self._states.update(zip(into, parent.fork(len(into)), strict=True))

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        """Add ``parts``; nothing is computed. Returns their text as the model will see it.

        Where the chat template writes earlier turns anew, it is the text of the new parts alone.
        """
        return await self._run(state, lambda found: self._add(found, parts))

    async def generate(
        self,
        state: int,
        parts: Sequence[Part],
        params: SamplingParams,
        on_text: Callable[[str], None] | None = None,
    ) -> Generated:
        """Add ``parts``, then generate; the state goes on with the first output, whose pieces ``on_text`` hears.

        Raises what ``AsyncEngine.submit`` does, and RequestFailed when the output was ended before it was done.
        """

        async def work(found: State) -> Generated:
            return await self._calls.generate(found, params, on_text, await self._add(found, parts))

        return await self._run(state, work)

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        """Add ``parts``, then of ``choices`` the one that scores highest, see ``scoring``.

        Raises what ``AsyncEngine.score`` does, and RequestError for no choices, an empty one, or two that are equal.
        """
        self._check_choices(choices)

        async def work(found: State) -> Selected:
            return await self._calls.select(found, choices, method, await self._add(found, parts))

        return await self._run(state, work)

    async def prepare(self, constraint: Constraint) -> None:
        """Compile what a later ``generate`` will be constrained by. Raises what that would."""
        await self._engine.prepare(constraint)

    def discard(self, states: Sequence[int]) -> None:
        """Let go of states; calls on them end with RequestError. Unknown ones are ignored."""
        for number in states:
            if (state := self._states.pop(number, None)) is not None:
                state.discard()

    def close(self) -> None:
        """Discard all states."""
        self.discard(list(self._states))

    # -------------------------------------------------------------------------------------------- within

    async def _add(self, state: State, parts: Sequence[Part]) -> str:
        texts = []
        for part in _merged(parts):
            await asyncio.sleep(0)  # there may be many, and a turn is written in time proportional to those before it
            texts.append(await self._join(state, part.state) if isinstance(part, Branch) else state.content.add(part))
            self._check_length("state has", len(state.content.text))
        return "".join(texts)

    async def _join(self, state: State, number: int) -> str:
        branch = self._idle(number)
        before = len(state.content.ids)
        text = await state.content.join(branch.content)
        ids = state.content.ids
        if branch.prefix is not None and len(ids) > before and branch.content.ids[: len(ids)] == ids:
            state.move_to(branch.prefix.share())
        return text

    async def _run(self, number: int, work: Callable[[State], Coroutine[Any, Any, T]]) -> T:
        """One call on a state, in a task that ``discard`` can end."""
        state = self._idle(number)
        task = asyncio.create_task(work(state))
        state.task = task
        try:
            return await task
        except BaseException as error:
            state.fail()
            caller = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and state.discarded and caller and not caller.cancelling():
                raise RequestError(f"state {number} was discarded while a call ran on it") from None
            raise
        finally:
            state.task = None

    def _idle(self, number: int) -> State:
        state = self._states.get(number)
        if state is None:
            raise RequestError(f"there is no state {number}: it was never opened, or it was discarded")
        if state.task is not None:
            raise RequestError(f"state {number} is busy; calls on one state come one after the other")
        if state.failed:
            raise RequestError(f"a call on state {number} has failed; it can only be discarded")
        return state

    def _check_choices(self, choices: Sequence[str]) -> None:
        if not choices:
            raise RequestError("select needs at least one choice, found none", param="choices")
        if len(choices) > MOST_CHOICES:
            raise RequestError(f"select takes at most {MOST_CHOICES} choices, found {len(choices)}", param="choices")
        seen: set[str] = set()
        for choice in choices:
            if not choice:
                raise RequestError("a choice is empty; each must have at least one character", param="choices")
            if choice in seen:
                raise RequestError(f"the choice {choice!r} stands twice; each must be different", param="choices")
            seen.add(choice)
        self._check_length("choices have", sum(map(len, choices)))

    def _check_length(self, what: str, characters: int) -> None:
        if characters > self._most_characters:
            raise ContextLengthExceeded(
                f"the {what} {characters} characters; this server's context holds "
                f"{self._engine.loaded.context_length} tokens: shorten the text"
            )

    def _check_new(self, numbers: Sequence[int]) -> None:
        if len(self._states) + len(numbers) > self._most_states:
            raise Overloaded(
                f"{len(self._states)} states are live and {len(numbers)} more are asked for, the limit is "
                f"{self._most_states}; discard some first"
            )
        if taken := [number for number in numbers if number in self._states]:
            raise RequestError(f"state {taken[0]} exists already; choose another number")
        if len(set(numbers)) < len(numbers):
            raise RequestError(f"the new states {list(numbers)} are not all different")


def _merged(parts: Sequence[Part]) -> Iterator[Part]:
    """``parts`` with texts that follow each other in one, for each part may copy all the text before it."""
    for text, group in groupby(parts, lambda part: isinstance(part, Text)):
        if text:
            yield Text("".join(part.text for part in group if isinstance(part, Text)))
        else:
            yield from group
