"""A backend of programs that writes down what it is asked. Knows no particular program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sgframe_dsl as sgf
from drive.programs_minimum import Call, Unit
from sgframe.sampling import SamplingParams
from sgframe_programs.parts import Cost, Generated, Method, Part, Selected, Text


@dataclass(frozen=True, slots=True)
class Content:
    """What a state holds; ``tail`` will be encoded together with the text that comes next."""

    units: tuple[Unit, ...] = ()
    tail: str = ""

    def with_parts(self, parts: Sequence[Part]) -> Content:
        """Raises TypeError for anything but text: these programs have no more."""
        texts = [part.text for part in parts if isinstance(part, Text)]
        if len(texts) < len(parts):
            raise TypeError(f"only texts can be recorded, found {parts}")
        return Content(self.units, self.tail + "".join(texts))

    def settled(self, more: str = "") -> tuple[Unit, ...]:
        """With ``more`` text, and all of it encoded."""
        return (*self.units, text) if (text := self.tail + more) else self.units


class Recorder(sgf.Server):
    """Keeps ``calls`` in the order of their ends, their ``costs``, and the number of ``round_trips``: the messages whose
    answer was waited for."""

    def __init__(self, url: str, salt: str) -> None:
        super().__init__(url, salt=salt)
        self.forget()
        self._contents: dict[int, Content] = {}

    def forget(self) -> None:
        """Begin anew."""
        self.calls: list[Call] = []
        self.costs: list[Cost] = []
        self.round_trips = 0

    async def open(self) -> int:
        state = await super().open()
        self._contents[state] = Content()
        return state

    async def fork(self, state: int, count: int) -> list[int]:
        states = await super().fork(state, count)
        self._contents |= dict.fromkeys(states, self._contents[state])
        return states

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        self.round_trips += 1
        self._contents[state] = self._contents[state].with_parts(parts)
        return await super().extend(state, parts)

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        self.round_trips += 1
        content = self._contents[state].with_parts(parts)
        generated = await super().generate(state, parts, params, on_text)
        output = tuple(generated.outputs[0].tokens)
        self._note(Call(content.units, content.tail, generated.cost.prompt_tokens, output), generated.cost)
        self._contents[state] = Content((*content.settled(), output))
        return generated

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        self.round_trips += 1
        content = self._contents[state].with_parts(parts)
        selected = await super().select(state, parts, choices, method)
        paths = tuple(map(tuple, selected.tokens))
        self._note(
            Call(content.units, content.tail, selected.cost.prompt_tokens, choices=tuple(choices), paths=paths),
            selected.cost,
        )
        self._contents[state] = Content(content.settled(choices[selected.index]))
        return selected

    async def discard(self, states: Sequence[int]) -> None:
        for state in states:
            self._contents.pop(state, None)
        await super().discard(states)

    def _note(self, call: Call, cost: Cost) -> None:
        self.calls.append(call)
        self.costs.append(cost)
