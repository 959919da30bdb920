"""How programs run and end: errors with their line, closing, streams, event loops, batches. Nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted_backend import ScriptedBackend, refusal
from small_programs import aask, ask, interrupt_soon, run

import sgframe_dsl as sgf
from sgframe.errors import Overloaded, RequestError
from sgframe_dsl.runs import listening
from sgframe_dsl.state import State
from sgframe_dsl.trace import Trace

# -------------------------------------------------------------------------------------------------- errors


def test_an_error_names_the_line_that_asked_and_is_raised_where_it_is_waited_for(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": RequestError("too long")}

    def body(s: State) -> None:
        s += "bad" + sgf.gen(
            "x",
            max_tokens=3,
        )
        s += "more" + sgf.gen("y")
        with pytest.raises(sgf.ProgramError) as caught:
            s["y"]
        error = caught.value
        assert (error.line, error.source) == (
            f"test_dsl_running.py:{first + 3}",
            's += "bad" + sgf.gen( "x", max_tokens=3, )',
        )
        assert isinstance(error.__cause__, RequestError)
        assert str(error) == f"{error.line}: {error.source}\n  too long"

    first = body.__code__.co_firstlineno - 2
    run(backend, body)
    assert backend.said("generate") == ["bad"]


def test_an_error_that_nobody_waited_for_ends_the_run(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": Overloaded("full"), "worse": RequestError("later")}

    def body(s: State) -> None:
        branches = s.fork(2)
        branches[1] += "bad" + sgf.gen()
        time.sleep(0.01)
        s += "worse" + sgf.gen()

    with pytest.raises(sgf.ProgramError, match="full"):
        run(backend, body)


def test_an_error_that_the_program_has_met_is_its_own_affair(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": refusal()}

    def body(s: State) -> str:
        attempt = s.copy()
        attempt += "bad" + sgf.gen("x")
        try:
            return str(attempt["x"])
        except sgf.ProgramError:
            s += "instead" + sgf.gen("x")
            return str(s["x"])

    assert run(backend, body).result == " ok"


@pytest.mark.parametrize(
    "read", [State.sync, State.text, State.messages, lambda s: s["x"], lambda s: list(s.text_iter("x"))]
)
def test_every_wait_ends_with_the_error(backend: ScriptedBackend, read: Callable[[State], Any]) -> None:
    backend.broken = RequestError("gone")

    def body(s: State) -> None:
        s += "a" + sgf.gen("x")
        read(s)

    with pytest.raises(sgf.ProgramError, match="gone"):
        run(backend, body)


def test_a_programs_own_error_comes_through_and_ends_what_runs(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")

    def body(s: State) -> None:
        s += "slow" + sgf.gen("x")
        assert gate.reached.wait(5)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(backend, body)
    assert backend.aborted == ["slow"]


def test_a_backend_that_was_closed_is_told(backend: ScriptedBackend) -> None:
    closed = ScriptedBackend()
    closed.close()
    for wait in (True, False):

        def body(s: State, wait: bool = wait) -> None:
            s += "a" + sgf.gen("x")
            if wait:
                s["x"]

        with pytest.raises(sgf.ProgramError, match="scripted backend was closed") as caught:
            run(closed, body)
        assert isinstance(caught.value.__cause__, sgf.BackendClosed)


def test_a_backend_that_breaks_in_the_middle(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += "a" + sgf.gen("x")
        s["x"]
        backend.broken = sgf.BackendError("http://…: 500 <html>")
        branches = s.fork(2)
        for branch in branches:
            branch += sgf.gen("y")
        branches.join("concat")
        s.sync()

    with pytest.raises(sgf.ProgramError, match="500 <html>"):
        run(backend, body)


# -------------------------------------------------------------------------------------------------- the end of a run


def test_after_a_run_everything_is_readable_and_nothing_can_be_added(backend: ScriptedBackend) -> None:
    kept: list[State] = []

    def body(s: State) -> None:
        s += sgf.user("Q")
        branch = s.copy()
        branch += sgf.assistant(sgf.gen("x"))
        kept.append(branch)

    state = run(backend, body)
    (branch,) = kept
    assert (branch["x"], branch.text(), state.text()) == (
        " ok",
        "<user>Q</user><assistant> ok</assistant>",
        "<user>Q</user>",
    )
    assert [message["content"] for message in branch.messages()] == ["Q", " ok"]
    assert list(branch.text_iter()) == ["<user>Q</user>", "<assistant>", " ok", "</assistant>"]
    assert list(branch.text_iter("x")) == [" ok"]
    with pytest.raises(sgf.NoSuchVariable):
        state["x"]
    with pytest.raises(sgf.ProgramError, match="the run is over"):
        state += "more"


def test_a_program_closes_itself(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")

    def body(s: State) -> None:
        s += "slow" + sgf.gen("x")
        assert gate.reached.wait(5)
        s.close()
        assert backend.states == {}
        s["x"]

    with pytest.raises(sgf.ProgramError, match=r"(?s)s.close\(\).*the program was closed"):
        run(backend, body)


def test_ctrl_c_in_a_wait_ends_the_run(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")
    interrupt_soon(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        ask.run("slow", backend=backend)
    assert (backend.aborted, backend.states) == (["slow"], {})


def test_who_listens_hears_of_every_run_that_ends(backend: ScriptedBackend) -> None:
    traces: list[Trace] = []
    backend.answers = {"bad": refusal()}
    with listening(traces.append):
        ask.run("good", backend=backend)
        with pytest.raises(sgf.ProgramError):
            ask.run("bad", backend=backend)
    assert [(trace.program, [step.error for step in trace.steps]) for trace in traces] == [
        ("ask", [""]),
        ("ask", ["scripted"]),
    ]


def test_the_trace_has_the_shape_of_the_run(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += "a" * 100 + sgf.gen("x")
        branches = s.fork(2)
        branches[0] += "b" + sgf.gen("y")
        branches[1].select("z", ["c"])
        branches.join("concat")
        s.copy().__iadd__(sgf.gen())

    trace = run(backend, body).trace()
    assert [(step.kind, step.name) for step in trace.steps] == [
        ("gen", "x"),
        ("fork", ""),
        ("join", "concat"),
        ("fork", "copy"),
    ]
    assert [[(step.kind, step.name) for step in branch] for branch in trace.steps[1].branches] == [
        [("gen", "y")],
        [("select", "z")],
    ]
    first = trace.steps[0]
    assert (first.prompt, first.answer) == ("…" + "a" * 79, " ok")
    assert first.line == f"test_dsl_running.py:{body.__code__.co_firstlineno + 1}"
    assert first.cost is not None
    assert all(0 <= step.started <= step.ended <= trace.seconds for step in trace.walk())


def test_a_wait_in_the_backends_own_loop_is_refused(backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_dsl.waiting.LOOP_ANSWERS_WITHIN", 0.05)

    async def inside() -> None:
        ask.run("a", backend=backend)

    with pytest.raises(RuntimeError, match="event loop of its own backend"):
        backend.schedule(inside()).result(5)


# -------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("program", [ask, aask])
def test_a_batch_is_in_the_order_of_its_items(backend: ScriptedBackend, program: sgf.Function) -> None:
    slow = backend.hold("b")
    backend.answers = {"a": "A", "b": "B", "c": "C"}
    threading.Timer(0.02, slow.open).start()
    states = program.run_batch([{"text": "a"}, ("b",), "c"], backend=backend, concurrency=3)
    assert [state["x"] for state in states] == ["A", "B", "C"]


@pytest.mark.parametrize("program", [ask, aask])
def test_an_item_that_fails_sinks_no_other(backend: ScriptedBackend, program: sgf.Function) -> None:
    backend.answers = {"bad": RequestError("no")}
    good, bad, wrong = program.run_batch(["good", "bad", {"txt": "?"}], backend=backend)
    assert (good.error, good["x"]) == (None, " ok")
    assert isinstance(bad.error, sgf.ProgramError)
    assert isinstance(wrong.error, TypeError)
    for state, error in ((bad, sgf.ProgramError), (wrong, TypeError)):
        with pytest.raises(error):
            state["x"]
        with pytest.raises(error):
            state["never"]
    assert bad.trace().steps[0].error == "no"


@pytest.mark.parametrize("program", [ask, aask])
async def test_an_async_batch(backend: ScriptedBackend, program: sgf.Function) -> None:
    states = await program.arun_batch("abc", backend=backend, concurrency=2, sampling={"max_tokens": 2})
    assert [state.text() for state in states] == ["a o", "b o", "c o"]


@pytest.mark.parametrize("program", [ask, aask])
def test_a_batch_runs_so_many_at_a_time(backend: ScriptedBackend, program: sgf.Function) -> None:
    backend.delay = 0.005
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, len(backend.states))

    check = backend._check
    backend._check = lambda: (look(), check())[1]  # type: ignore[method-assign]
    program.run_batch([str(number) for number in range(12)], backend=backend, concurrency=3)
    assert most == 3


def test_a_batch_of_nothing(backend: ScriptedBackend) -> None:
    assert ask.run_batch([], backend=backend) == []
    assert aask.run_batch([], backend=backend) == []


@pytest.mark.parametrize(("concurrency", "error"), [(0, ValueError), ("4", TypeError), (True, TypeError)])
def test_concurrency_is_a_number(backend: ScriptedBackend, concurrency: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"found {concurrency!r}"):
        ask.run_batch(["a"], backend=backend, concurrency=concurrency)


def test_a_bar_counts_on_standard_error(backend: ScriptedBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.answers = {"bad": refusal()}
    ask.run_batch(["good", "bad", "good"], backend=backend, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "ask" in err
    assert "3/3" in err
    assert "1 failed" in err


@pytest.mark.parametrize("program", [ask, aask])
def test_ctrl_c_ends_a_batch(backend: ScriptedBackend, program: sgf.Function) -> None:
    gate = backend.hold("slow")
    interrupt_soon(gate.reached)
    with pytest.raises(KeyboardInterrupt):
        program.run_batch(["slow", "slow", "never"], backend=backend, concurrency=2)
    assert (backend.aborted, backend.states) == (["slow", "slow"], {})


def test_a_batch_has_no_other_options(backend: ScriptedBackend) -> None:
    with pytest.raises(TypeError, match="concurency"):
        ask.run_batch(["a"], backend=backend, concurency=3)  # type: ignore[call-arg]
