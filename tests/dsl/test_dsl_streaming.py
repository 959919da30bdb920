"""Runs that are heard while they go on, in event loops, and many at once."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import suppress

import pytest
from scripted_backend import ScriptedBackend, refusal
from small_programs import aask, ask, interrupt_soon, run

import sgframe_dsl as sgf
from sgframe_dsl.state import State

# -------------------------------------------------------------------------------------------------- streams


def test_all_text_comes_in_pieces_in_order(backend: ScriptedBackend) -> None:
    backend.answers = {"Q": "abcd", "<assistant>": "efg"}

    @sgf.function
    def program(s: State) -> str:
        s += "Q" + sgf.gen("x") + "."
        s += sgf.assistant(sgf.gen("y"))
        return "result"

    state = program.run(stream=True, backend=backend)
    assert list(state.text_iter()) == ["Q", "ab", "cd", ".<assistant>", "ef", "g", "</assistant>"]
    assert list(state.text_iter("y")) == ["ef", "g"]
    assert (state["x"], state.text(), state.result) == ("abcd", "Qabcd.<assistant>efg</assistant>", "result")
    assert state.messages() == [{"role": "assistant", "content": "efg"}]


def test_pieces_are_heard_before_the_answer_is_complete(backend: ScriptedBackend) -> None:
    gate = backend.hold("second")

    @sgf.function
    def program(s: State) -> None:
        s += "first" + sgf.gen("x") + "second" + sgf.gen("y")

    state = program.run(stream=True, backend=backend)
    pieces = state.text_iter()
    assert [next(pieces) for _ in range(4)] == ["first", " o", "k", "second"]
    assert not gate.opened.is_set()
    gate.open()
    assert list(pieces) == [" o", "k"]


def test_a_stream_waits_for_a_name_that_comes_later(backend: ScriptedBackend) -> None:
    go = threading.Event()

    @sgf.function
    def program(s: State) -> None:
        assert go.wait(5)
        s += sgf.gen("x")
        s.copy().__iadd__(sgf.gen("y"))

    state = program.run(stream=True, backend=backend)
    pieces = state.text_iter("x")
    threading.Timer(0.02, go.set).start()
    assert (list(pieces), state["x"]) == ([" o", "k"], " ok")
    with pytest.raises(sgf.NoSuchVariable, match=r'(?s)state\["y"\].*nothing sets a variable'):
        state["y"]


def test_a_program_does_not_follow_itself(backend: ScriptedBackend) -> None:
    with pytest.raises(sgf.ProgramError, match="follows a run from outside"):
        run(backend, lambda s: list(s.text_iter()))


def test_a_stream_ends_with_the_error(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": refusal()}
    state = ask.run("bad", stream=True, backend=backend)
    for read in (lambda: list(state.text_iter()), lambda: state["x"], state.text, state.sync, lambda: state["z"]):
        with pytest.raises(sgf.ProgramError, match="scripted"):
            read()
    assert isinstance(state.error, sgf.ProgramError)


def test_a_programs_own_error_reaches_who_reads_its_stream(backend: ScriptedBackend) -> None:
    @sgf.function
    def program(s: State) -> None:
        s += "a" + sgf.gen("x")
        raise KeyError("mine")

    state = program.run(stream=True, backend=backend)
    with pytest.raises(KeyError, match="mine"):
        state.sync()


def test_closing_a_stream_ends_its_program(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")
    with ask.run("slow", stream=True, backend=backend) as state:
        assert gate.reached.wait(5)
    assert (backend.aborted, backend.states, backend.tasks()) == (["slow"], {}, 0)
    with pytest.raises(sgf.ProgramError, match="was closed"):
        state["x"]


def test_closing_a_stream_that_has_ended_changes_nothing(backend: ScriptedBackend) -> None:
    with ask.run("a", stream=True, backend=backend) as state:
        assert state["x"] == " ok"
        assert state.text() == "a ok"
    assert (state.error, state.text()) == (None, "a ok")


def test_ctrl_c_while_reading_a_stream_closes_it(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")
    state = ask.run("slow", stream=True, backend=backend)
    interrupt_soon(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        for _ in state.text_iter():
            pass
    assert (backend.aborted, backend.states) == (["slow"], {})


# -------------------------------------------------------------------------------------------------- event loops


async def test_an_async_program_runs_in_the_callers_loop(backend: ScriptedBackend) -> None:
    loops = []

    @sgf.function
    async def program(s: State) -> str:
        loops.append(asyncio.get_running_loop())
        branches = s.fork(2)
        for branch in branches:
            branch += "a" + sgf.gen("x")
        await branches.aselect(by=lambda branch: len(branch["x"]))
        s += await_mark
        await s.call(aask, "b")
        return await s.atext()

    await_mark = "|"
    state = await program.arun(backend=backend)
    assert state.result == "a ok|b ok"
    assert loops == [asyncio.get_running_loop()]


async def test_another_program_runs_in_a_thread_of_its_own(backend: ScriptedBackend) -> None:
    assert (await ask.arun("a", backend=backend))["x"] == " ok"


def test_an_async_program_runs_by_run_too(backend: ScriptedBackend) -> None:
    assert aask.run("a", backend=backend).result == " ok"
    assert aask.run("a", stream=True, backend=backend).result == " ok"


async def test_an_async_program_is_awaited_where_a_loop_runs(backend: ScriptedBackend) -> None:
    with pytest.raises(RuntimeError, match=r"await the program's arun\("):
        aask.run("a", backend=backend)


def test_an_async_program_is_not_added_but_called(backend: ScriptedBackend) -> None:
    with pytest.raises(TypeError, match=r"await s.call\(program\)"):
        run(backend, lambda s: s.__iadd__(aask.bind(text="a")))


@pytest.mark.parametrize("program", [ask, aask])
async def test_an_async_stream(backend: ScriptedBackend, program: sgf.Function) -> None:
    state = await program.arun("Q", stream=True, backend=backend)
    assert [piece async for piece in state.atext_iter()] == ["Q", " o", "k"]
    assert [piece async for piece in state.atext_iter("x")] == [" o", "k"]
    assert (await state.aget("x"), await state.atext()) == (" ok", "Q ok")


@pytest.mark.parametrize("program", [ask, aask])
async def test_closing_an_async_stream(backend: ScriptedBackend, program: sgf.Function) -> None:
    backend.hold("slow")
    with await program.arun("slow", stream=True, backend=backend) as state:
        while not backend.said("generate"):
            await asyncio.sleep(0.001)
    with pytest.raises(sgf.ProgramError, match="was closed"):
        await state.aget("x")
    assert backend.aborted == ["slow"]


@pytest.mark.parametrize("program", [ask, aask])
async def test_cancelling_closes_the_run(backend: ScriptedBackend, program: sgf.Function) -> None:
    backend.hold("slow")
    task = asyncio.create_task(program.arun("slow", backend=backend))
    while not backend.said("generate"):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (backend.aborted, backend.states) == (["slow"], {})


async def test_a_wait_that_is_cancelled_cancels_no_one_elses(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")

    @sgf.function
    async def program(s: State) -> str:
        s += "slow" + sgf.gen("x")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(s.aget("x"), 0.02)
        gate.open()
        return str(await s.aget("x"))

    assert (await program.arun(backend=backend)).result == " ok"


# -------------------------------------------------------------------------------------------------- many


def test_many_programs_with_forks_in_many_threads(backend: ScriptedBackend) -> None:
    backend.delay = 0.0005

    @sgf.function
    def program(s: State, number: int) -> None:
        s += f"item {number}: " + sgf.gen("first")
        branches = s.fork(3)
        for index, branch in enumerate(branches):
            branch += f" {index}" + sgf.gen("x")
            twigs = branch.fork(2)
            for twig in twigs:
                twig += sgf.gen("y")
            if index == 1:
                twigs.select(by="y")
        if number % 2:
            branches.join("concat")
        else:
            branches.select(by="x")
        if number % 5 == 3:
            raise ValueError(number)

    states = program.run_batch(range(200), backend=backend, concurrency=64)
    for number, state in enumerate(states):
        assert (type(state.error) is ValueError) == (number % 5 == 3)
        if state.error is None:
            tail = " 0 ok 1 ok ok 2 ok" if number % 2 else " 0 ok"
            assert state.text() == f"item {number}:  ok{tail}"


def test_a_user_may_work_on_branches_in_threads(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(8)

        def grow(branch: State) -> None:
            for _ in range(5):
                branch += "x" + sgf.gen("last")
                assert branch["last"] == " ok"

        threads = [threading.Thread(target=grow, args=(branch,)) for branch in branches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        branches.join()
        assert s["last"] == [" ok"] * 8

    run(backend, body)
    assert len(backend.calls) == 40


def grow(draw: random.Random, s: State, depth: int) -> None:
    """Add to ``s`` what ``draw`` says."""
    for _ in range(draw.randint(1, 4)):
        match draw.choice(["text", "gen", "select", "read", "chat", "fork", "fork"]):
            case "text":
                s += "t"
            case "gen":
                s += "a" + sgf.gen("v", dtype=draw.choice([int, str]))
            case "select":
                s.select("v", ["x", "y"])
            case "read":
                s.text()
            case "chat":
                s += sgf.user("u") + sgf.assistant(sgf.gen("w"))
            case "fork" if depth < 3:
                branches = s.fork(draw.randint(1, 3))
                for branch in branches:
                    grow(draw, branch, depth + 1)
                come_together(draw, branches)


def come_together(draw: random.Random, branches: sgf.Branches) -> None:
    match draw.choice(["leave", "join", "concat", "vote", "score", "judge"]):
        case "join":
            branches.join()
        case "concat":
            branches.join("concat")
        case "vote" if any("v" in branch for branch in branches):
            branches.select(by="v")
        case "judge" if any("v" in branch for branch in branches):
            branches.select(by=sgf.judge("?", of="v"))
        case "score":
            branches.select(by=lambda branch: draw.random())


@pytest.mark.parametrize("seed", range(30))
def test_whatever_a_program_does_and_wherever_it_fails_nothing_is_left(backend: ScriptedBackend, seed: int) -> None:
    draw = random.Random(seed)
    answers = ["x", "1", refusal()] if seed % 2 else ["x", "1"]

    def answer(prompt: str) -> str:
        if isinstance(drawn := draw.choice(answers), Exception):
            raise drawn
        return drawn

    backend._answer = answer  # type: ignore[method-assign]
    program = sgf.function(lambda s: grow(draw, s, 0))
    state = program.run(stream=True, backend=backend)
    if seed % 3 == 0:
        time.sleep(draw.random() * 0.005)
        state.close()
    with suppress(sgf.ProgramError):
        assert "".join(state.text_iter()) == state.text()
    with suppress(sgf.ProgramError):
        state.sync()
