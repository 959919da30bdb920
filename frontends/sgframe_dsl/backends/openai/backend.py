"""The backend itself: states are kept here, and each call sends what its state holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, TypeVar

from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backend import Backend
from sgframe_dsl.backends.loop import LoopThread
from sgframe_dsl.backends.openai.answers import Outputs
from sgframe_dsl.backends.openai.endpoint import Endpoint
from sgframe_dsl.backends.openai.likelihood import Comparison
from sgframe_dsl.backends.openai.protocol import Answer
from sgframe_dsl.backends.openai.requests import COMPLETIONS, generation
from sgframe_dsl.backends.openai.transcript import is_chat, rendering
from sgframe_dsl.errors import BackendClosed, BackendError
from sgframe_programs.parts import Branch, Generated, Method, Part, Selected, Text

T = TypeVar("T")


@dataclass
class _State:
    """What a state holds, of which it had ``inherited`` parts when it was forked, and the call that runs on it."""

    parts: list[Part]
    inherited: int = 0
    call: asyncio.Task[Any] | None = None


class OpenAI(Backend):
    """Programs on any OpenAI-compatible endpoint. It has no prefix handles: each call sends the whole text.

    A program without roles goes to ``/v1/completions``, one with roles to ``/v1/chat/completions``. What differs from the
    other backends stands in ``docs/programs-backends.md``; what the protocol cannot do raises RequestError and is not sent.

    Args:
        base_url: such as ``http://127.0.0.1:8000`` or ``https://host/some/v1``; without a path it is ``/v1``.
        model: the name to ask for; None asks for the first that the endpoint lists.
        api_key: sent as the bearer token; None sends none.
        timeout: seconds that the endpoint may say nothing.
        extra_body: fields of every request; they win over those sent otherwise, and None leaves one out.
        continue_turns: the endpoint knows ``continue_final_message`` (vLLM, SGLang), so that gen may stand after text in a
            turn of the assistant.

    Raises ValueError for a ``base_url`` that is no HTTP address.
    """

    knows_prefixes: ClassVar[bool] = False

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 600.0,
        extra_body: Mapping[str, Any] | None = None,
        continue_turns: bool = False,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key, timeout)
        self._loop = LoopThread(f"the backend of {self._endpoint.url}", self._end)
        self._model = model
        self._naming = asyncio.Lock()
        self._extra_body = dict(extra_body or {})
        self._continue_turns = continue_turns
        self._least_tokens = 0  # that an echo must generate
        self._states: dict[int, _State] = {}
        self._numbers = count(1)

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return self._loop.schedule(work)

    async def open(self) -> int:
        return self._added(_State([]))

    async def fork(self, state: int, count: int) -> list[int]:
        parts = self._state(state).parts
        return [self._added(_State(list(parts), inherited=len(parts))) for _ in range(count)]

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        return self._grow(state, parts)

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        rendered = self._grow(state, parts)
        path, body = generation(self._state(state).parts, params, continue_turns=self._continue_turns)
        outputs = Outputs(params, on_text)
        if on_text is None:
            outputs.add(await self._call(state, self._ask(path, body)))
        else:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            await self._call(state, self._stream(path, body, outputs.add))
        generated = outputs.generated(rendered)
        self._grow(state, [Text(generated.outputs[0].text)])
        return generated

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        rendered = self._grow(state, parts)
        before = self._state(state).parts
        if is_chat(before):
            raise RequestError(
                "select cannot stand in a chat here: OpenAI's chat endpoint tells no probabilities of given text; use "
                "gen(choices=[…]), or write the program without roles"
            )
        comparison = Comparison(rendering(before), choices, method)
        answer, least = await self._call(state, self._echo(comparison))
        selected = comparison.selected(answer, least, rendered)
        self._grow(state, [Text(choices[selected.index])])
        return selected

    async def prepare(self, constraint: Constraint) -> None:
        """The protocol has no word for it."""

    async def discard(self, states: Sequence[int]) -> None:
        for number in states:
            state = self._states.pop(number, None)
            if state is not None and state.call is not None:
                state.call.cancel()

    def close(self) -> None:
        self._loop.close()

    async def _end(self) -> None:
        await self.discard(list(self._states))
        await self._endpoint.close()

    # ------------------------------------------------------------------------------------------ states

    def _added(self, state: _State) -> int:
        number = next(self._numbers)
        self._states[number] = state
        return number

    def _state(self, number: int) -> _State:
        if number not in self._states:
            raise BackendClosed("this state was discarded")
        return self._states[number]

    def _grow(self, number: int, parts: Sequence[Part]) -> str:
        """Add ``parts``, those of branches in their place; returns their text."""
        added: list[Part] = []
        for part in parts:
            if isinstance(part, Branch):
                branch = self._state(part.state)
                added += branch.parts[branch.inherited :]
            else:
                added.append(part)
        self._state(number).parts += added
        return rendering(added)

    async def _call(self, number: int, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, which ends with BackendClosed as soon as its state is discarded."""
        state, caller = self._state(number), asyncio.current_task()
        assert caller is not None
        state.call = call = asyncio.ensure_future(work)
        try:
            return await call
        except asyncio.CancelledError:
            if caller.cancelling():
                raise
            raise BackendClosed("this state was discarded while a call ran on it") from None
        finally:
            state.call = None

    # ------------------------------------------------------------------------------------------ requests

    async def _ask(self, path: str, body: dict[str, Any]) -> Answer:
        return await self._endpoint.ask(path, await self._completed(body))

    async def _stream(self, path: str, body: dict[str, Any], hear: Callable[[Answer], None]) -> None:
        await self._endpoint.stream(path, await self._completed(body), hear)

    async def _echo(self, comparison: Comparison) -> tuple[Answer, int]:
        """The answer, and how many tokens of each output were generated."""
        least = self._least_tokens
        try:
            return await self._ask(COMPLETIONS, comparison.body(least)), least
        except ContextLengthExceeded:
            raise
        except RequestError as error:
            said = f"{error.param} {error}"
            if "max_tokens" in said and least == 0:
                self._least_tokens = 1
                return await self._echo(comparison)
            if not any(word in said for word in ("echo", "logprobs", "chat model")):
                raise
            raise BackendError(
                f"select needs echo and logprobs of {self._endpoint.url}{COMPLETIONS}, which refuses them: {error}; use "
                "gen(choices=[…]) instead"
            ) from error

    async def _completed(self, body: dict[str, Any]) -> dict[str, Any]:
        async with self._naming:  # one question for the name, however many calls wait for it
            self._model = self._model or await self._endpoint.first_model()
        fields = {"model": self._model, **body, **self._extra_body}
        return {name: value for name, value in fields.items() if value is not None}
