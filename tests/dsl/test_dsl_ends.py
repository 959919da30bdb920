"""Runs whose end is met by something else: a thread that still writes, a backend that closes, a loop that is held up."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar, cast

import pytest
from scripted_backend import ScriptedBackend, refusal
from scripted_endpoint import Endpoint, Reply, scripted_endpoint

import sgframe_dsl as sgf
from sgframe import Engine
from sgframe_dsl.backends.engine import EngineBackend
from sgframe_dsl.errors import BackendClosed, BackendError
from sgframe_dsl.state import State
from sgframe_dsl.waiting import in_thread

T = TypeVar("T")


class Interrupted(ScriptedBackend):
    """``meanwhile`` happens once, when the backend is next asked for something."""

    meanwhile: Callable[[], None] | None = None

    def schedule(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().schedule(work)


@pytest.fixture
def interrupted() -> Iterator[Interrupted]:
    backend = Interrupted()
    yield backend
    assert backend.states == {}
    backend.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with scripted_endpoint() as endpoint:
        endpoint.replies = [Reply(silent=True)]
        yield endpoint


def run(backend: sgf.Backend, body: Callable[[State], Any]) -> State:
    return sgf.function(body).run(backend=backend)


def read_soon(state: State, name: str) -> Any:
    return in_thread(lambda: state[name]).result(5)


@sgf.function
async def answers(s: State) -> str:
    s += "a" + sgf.gen("x")
    return str(await s.aget("x"))


# -------------------------------------------------------------------------------------------------- late writers


def test_what_is_added_while_the_run_ends_fails_with_it(interrupted: Interrupted) -> None:
    def body(s: State) -> None:
        s += "a" + sgf.gen("x")
        s.sync()

        def add_late() -> None:
            late = s
            late += "late" + sgf.gen("late")

        interrupted.hold("late")
        interrupted.meanwhile = add_late

    state = run(interrupted, body)
    with pytest.raises(sgf.ProgramError, match="the run is over"):
        read_soon(state, "late")


def test_a_branch_made_while_the_run_ends_fails_with_it(interrupted: Interrupted) -> None:
    late: list[State] = []

    def body(s: State) -> None:
        branch = s.copy()
        branch.sync()

        def fork_late() -> None:
            branches = branch.fork(1)
            branches[0] += "late" + sgf.gen("x")
            late.extend(branches)

        interrupted.hold("late")
        interrupted.meanwhile = fork_late

    run(interrupted, body)
    with pytest.raises(sgf.ProgramError, match="the run is over"):
        read_soon(late[0], "x")


def test_what_is_added_stays_in_one_piece(interrupted: Interrupted) -> None:
    def body(s: State) -> str:
        threads: list[Future[Any]] = []

        def add_from_a_thread() -> None:
            threads.append(in_thread(lambda: s.__iadd__("c")))
            with suppress(TimeoutError):
                threads[0].result(0.05)

        interrupted.meanwhile = add_from_a_thread
        s += "a" + sgf.gen("x") + "b"
        threads[0].result(5)
        return s.text()

    assert run(interrupted, body).result == "a okbc"


def test_joins_of_joins_may_go_deep(backend: ScriptedBackend) -> None:
    depth = 200

    def body(s: State) -> Any:
        branches = [s.fork(1)]
        for _ in range(depth - 1):
            branches.append(branches[-1][0].fork(1))
        branches[-1][0].__iadd__("a" + sgf.gen("x"))
        for each in reversed(branches):
            each.join()
        return in_thread(lambda: s.meta("x")).result(5)

    found = run(backend, body).result
    for _ in range(depth):
        (found,) = found
    assert found.text == " ok"


# -------------------------------------------------------------------------------------------------- closed backends


def test_a_backend_may_be_closed_when_all_it_said_was_met() -> None:
    closing = ScriptedBackend({"bad": refusal()})

    def body(s: State) -> str:
        s += "bad" + sgf.gen("x")
        with pytest.raises(sgf.ProgramError):
            s["x"]
        closing.close()
        return "mine"

    assert run(closing, body).result == "mine"


def test_closing_a_backend_ends_the_programs_that_wait_on_it(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    backend = sgf.OpenAI(endpoint.url, model="m")

    def body(s: State) -> None:
        s += "a" + sgf.gen("x", max_tokens=1)
        s["x"]

    ends = in_thread(lambda: run(backend, body))
    assert endpoint.arrived.wait(5)
    with caplog.at_level(logging.ERROR):
        backend.close()
    with pytest.raises(sgf.ProgramError, match=r's \+= "a".*\n.* was closed') as caught:
        ends.result(5)
    assert isinstance(caught.value.__cause__, BackendClosed)
    assert caplog.messages == []


def test_closing_a_backend_ends_a_run_that_only_waits_for_its_end(endpoint: Endpoint) -> None:
    backend = sgf.OpenAI(endpoint.url, model="m")

    def body(s: State) -> None:
        s += "a" + sgf.gen(max_tokens=1)

    ends = in_thread(lambda: run(backend, body))
    assert endpoint.arrived.wait(5)
    backend.close()
    with pytest.raises(sgf.ProgramError, match="was closed"):
        ends.result(5)


def test_an_engine_is_refused_in_a_fork_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = EngineBackend(cast(Engine, None))
    monkeypatch.setattr(os, "getpid", lambda: -1)

    def body(s: State) -> None:
        s += "a" + sgf.gen("x")

    with pytest.raises(sgf.ProgramError, match="a fork; start an engine here") as caught:
        run(backend, body)
    assert isinstance(caught.value.__cause__, BackendError)


# -------------------------------------------------------------------------------------------------- event loops


async def test_a_stream_does_not_hold_up_the_loop_of_its_program(backend: ScriptedBackend) -> None:
    state = await answers.arun(backend=backend, stream=True)
    for read in (state.text, lambda: state.result, lambda: state["x"], lambda: list(state.text_iter())):
        with pytest.raises(RuntimeError, match="await"):
            read()
    assert await state.atext() == "a ok"


async def test_when_all_text_of_a_stream_has_come_everything_is_readable(backend: ScriptedBackend) -> None:
    state = await answers.arun(backend=backend, stream=True)
    pieces = [piece async for piece in state.atext_iter()]
    assert ("".join(pieces), state.text(), state["x"], state.result) == ("a ok", "a ok", " ok", " ok")
