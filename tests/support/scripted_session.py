"""A session whose answers are a script, behind the real endpoint of programs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette

from sgframe.constraints import Constraint
from sgframe.errors import Overloaded, RequestError
from sgframe.messages import Namespace
from sgframe.sampling import SamplingParams
from sgframe_programs.endpoint import programs_route
from sgframe_programs.parts import Cost, Generated, Method, Output, Part, Selected, Text
from sgframe_programs.wire import MAX_FRAME

MOST_STATES = 8


class ScriptedSession:
    """Says the text of a state in capitals, word by word. The last text of the parts may ask for more: ``hang``, ``fail``,
    ``crash`` or ``huge``. ``texts`` are those of the open states, ``running`` counts calls."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.texts: dict[int, str] = {}
        self.running = 0
        self.prepared: list[Constraint] = []
        self.closed = False

    def open(self, state: int) -> None:
        self._make(state, "")

    def fork(self, state: int, into: Sequence[int]) -> None:
        for new in into:
            self._make(new, self._text(state))

    def discard(self, states: Sequence[int]) -> None:
        for state in states:
            self.texts.pop(state, None)

    def close(self) -> None:
        self.texts.clear()
        self.closed = True

    async def extend(self, state: int, parts: Sequence[Part]) -> str:
        added = "".join(part.text for part in parts if isinstance(part, Text))
        self.texts[state] = self._text(state) + added
        return added

    async def generate(
        self, state: int, parts: Sequence[Part], params: SamplingParams, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        rendered = await self.extend(state, parts)
        with self._counted():
            match rendered:
                case "hang":
                    await asyncio.Event().wait()
                case "fail":
                    raise RequestError("the regex cannot be read", param="constraint", code="invalid_regex")
                case "crash":
                    raise ZeroDivisionError
            text = "x" * (MAX_FRAME + 1) if rendered == "huge" else self.texts[state].upper()
            for word in text.split(" ") if on_text else ():
                await asyncio.sleep(0)
                on_text(word)  # type: ignore[misc]
        return Generated([Output(text, [1, 2], "stop", params.seed)], Cost(3, 1), rendered)

    async def select(self, state: int, parts: Sequence[Part], choices: Sequence[str], method: Method) -> Selected:
        rendered = await self.extend(state, parts)
        scores = [-float(len(choice)) for choice in choices]
        return Selected(
            scores.index(max(scores)), scores, [[1]] * len(choices), [[-0.5]] * len(choices), Cost(3, 1), rendered
        )

    async def prepare(self, constraint: Constraint) -> None:
        self.prepared.append(constraint)

    def _make(self, state: int, text: str) -> None:
        if len(self.texts) == MOST_STATES:
            raise Overloaded(f"{MOST_STATES} states are open, the most there may be")
        if state in self.texts:
            raise RequestError(f"state {state} is open already")
        self.texts[state] = text

    def _text(self, state: int) -> str:
        if state not in self.texts:
            raise RequestError(f"state {state} is not open")
        return self.texts[state]

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


class ProgramServer:
    """The endpoint with scripted sessions, in a thread of its own. ``sessions`` are all that there were."""

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []
        self._app = Starlette(routes=[programs_route(self._open, "scripted", 1000)])

    def _open(self, namespace: Namespace) -> Any:
        self.sessions.append(ScriptedSession(namespace))
        return self.sessions[-1]

    @contextlib.contextmanager
    def serving(self, port: int = 0) -> Iterator[str]:
        """Its address. Its connections are closed at the end."""
        config = uvicorn.Config(
            *(self._app, "127.0.0.1", port),
            log_config=None,
            lifespan="off",
            ws="websockets-sansio",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.001)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join()
