"""What a program writes and reads: text, gen, select, chat turns, values; and what is refused where it is written."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from scripted_backend import ScriptedBackend
from small_programs import run

import sgframe_dsl as sgf
from sgframe import Engine
from sgframe.errors import ConfigError
from sgframe.sampling import SamplingParams
from sgframe_dsl.defaults import as_backend
from sgframe_dsl.state import State

# -------------------------------------------------------------------------------------------------- text and variables


def test_a_program_reads_what_the_model_wrote(backend: ScriptedBackend) -> None:
    backend.answers = {"Capital of France? ": "Paris"}

    @sgf.function
    def qa(s: State, question: str) -> str:
        s += question + " "
        s += sgf.gen("answer", max_tokens=32, stop="\n")
        return str(s["answer"]) + "!"

    state = qa.run(question="Capital of France?", backend=backend)
    assert state["answer"] == "Paris"
    assert state.text() == "Capital of France? Paris"
    assert state.result == "Paris!"
    assert backend.params == [SamplingParams(max_tokens=32, stop=("\n",))]


def test_text_goes_with_the_next_call_and_empty_text_nowhere(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += ""
        s += "a"
        s += "b" + sgf.gen() + "c"
        s += ""
        s += sgf.gen()

    assert run(backend, body).text() == "ab okc ok"
    assert backend.calls == [("generate", "ab"), ("generate", "ab okc")]


def test_a_program_that_only_writes_sends_its_text_once(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += "a"
        s += "b"

    assert run(backend, body).text() == "ab"
    assert backend.calls == [("extend", "ab")]


def test_a_program_that_does_nothing_asks_nothing(backend: ScriptedBackend) -> None:
    state = run(backend, lambda s: None)
    assert (state.text(), state.messages(), backend.calls) == ("", [], [])


def test_writing_returns_before_the_model_has_answered(backend: ScriptedBackend) -> None:
    gate = backend.hold("Q")

    def body(s: State) -> None:
        s += "Q" + sgf.gen("x") + "then" + sgf.gen("y")
        assert "y" in s
        gate.open()

    assert run(backend, body)["y"] == " ok"


def test_reading_waits_for_that_value_only(backend: ScriptedBackend) -> None:
    gate = backend.hold("later")

    def body(s: State) -> None:
        s += "first" + sgf.gen("x") + "later" + sgf.gen("y")
        assert s["x"] == " ok"
        assert not gate.opened.is_set()
        gate.open()

    run(backend, body)


def test_a_name_set_twice_is_the_latest_in_the_program(backend: ScriptedBackend) -> None:
    backend.answers = {"1": "one", "2": "two"}

    def body(s: State) -> None:
        s += "1" + sgf.gen("x") + "2" + sgf.gen("x")
        assert s["x"] == "two"

    assert run(backend, body)["x"] == "two"


def test_control_flow_follows_values(backend: ScriptedBackend) -> None:
    backend.answers = {"go? ": "no", "go? no, go? ": "yes"}

    def body(s: State) -> None:
        s += "go? " + sgf.gen("more")
        while s["more"] != "yes":
            s += ", go? " + sgf.gen("more")

    assert run(backend, body).text() == "go? no, go? yes"


def test_a_variable_that_nothing_sets_is_an_error_at_once(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += sgf.gen("answer")
        assert "anser" not in s
        assert s.get("anser", 7) == 7
        assert s.get("answer") == " ok"
        s["anser"]  # the line that is named

    with pytest.raises(
        sgf.NoSuchVariable, match=r"(?s)test_dsl_language.py:\d+: s\[\"anser\"\].*did you mean 'answer'\?"
    ):
        run(backend, body)


def test_a_variable_has_a_name_that_is_text(backend: ScriptedBackend) -> None:
    with pytest.raises(TypeError, match="named by a str, found 3"):
        run(backend, lambda s: s[3])  # type: ignore[index]


def test_other_things_cannot_be_added(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += 5  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="text, expressions and programs, found 5"):
        run(backend, body)
    with pytest.raises(TypeError):
        sgf.gen("x") + 5  # type: ignore[operator]
    with pytest.raises(TypeError):
        5 + sgf.gen("x")  # type: ignore[operator]


def test_meta_tells_what_a_gen_took(backend: ScriptedBackend) -> None:
    meta = run(backend, lambda s: s.__iadd__("abc" + sgf.gen("x"))).meta("x")
    assert (meta.text, meta.tokens, meta.prompt_tokens, meta.cached_tokens) == (" ok", [32, 111, 107], 3, 0)
    assert (meta.finish_reason, meta.stop_match, meta.logprobs, meta.output_tokens) == ("stop", None, None, 3)
    assert (meta.forced_tokens, meta.approximations) == (0, ())


# -------------------------------------------------------------------------------------------------- select


def test_select_goes_on_with_the_choice(backend: ScriptedBackend) -> None:
    backend.answers = {"is ": "b"}

    def body(s: State) -> None:
        s += "it is "
        s.select("pick", choices=["a", "b"], method="greedy_token")
        s += "."

    state = run(backend, body)
    assert (state["pick"], state.text()) == ("b", "it is b.")
    assert state.meta("pick").scores == {"a": -1.0, "b": 0.0}
    assert state.meta("pick").logprobs == {"a": [-0.5], "b": [-0.5]}


@pytest.mark.parametrize(
    ("choices", "error", "message"),
    [
        ([], ValueError, r"select\('x'\): choices is empty"),
        (["a", "b", "a"], ValueError, "'a' twice"),
        (["a", ""], ValueError, "a choice is empty"),
        ("ab", TypeError, "list of str, found 'ab'"),
        (["a", 1], TypeError, "found 1 in it"),
        (None, TypeError, "found None"),
    ],
)
def test_choices_are_refused_where_they_are_written(choices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sgf.select("x", choices)
    if choices is not None:
        with pytest.raises(error, match=message.replace("select", "gen")):
            sgf.gen("x", choices=choices)


def test_a_method_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="'greedy_tokens'; did you mean 'greedy_token'"):
        sgf.select("x", ["a"], "greedy_tokens")  # type: ignore[arg-type]


def test_select_has_a_name() -> None:
    with pytest.raises(TypeError, match="name of a variable"):
        sgf.select(None, ["a"])  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- options of gen


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stop": 5}, TypeError, r"gen\('x'\): stop: .*found 5"),
        ({"stop": [1]}, TypeError, "stop"),
        ({"stop": ""}, ValueError, "non-empty"),
        ({"temperature": "hot"}, TypeError, "temperature: .*found 'hot'"),
        ({"temperature": -1.0}, ValueError, "temperature must be"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens"),
        ({"max_tokens": True}, TypeError, "max_tokens"),
        ({"n": 0}, ValueError, "n must be"),
        ({"n": "2"}, TypeError, "n: .*found '2'"),
        ({"temprature": 1.0}, TypeError, "no option 'temprature'; did you mean 'temperature'"),
        ({"regex": "a", "dtype": int}, ValueError, "regex and dtype both"),
        ({"regex": 5}, TypeError, "regex is a regular expression in a str"),
        ({"dtype": list}, TypeError, "dtype is int, float, bool or str"),
        ({"json_schema": "{"}, ValueError, "not the JSON text of a schema"),
        ({"json_schema": 5}, TypeError, "a pydantic model, found 5"),
    ],
)
def test_options_are_refused_where_they_are_written(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sgf.gen("x", **options)


@pytest.mark.parametrize("name", [5, ""])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(TypeError, match="name of a variable is a str"):
        sgf.gen(name)


def test_the_options_of_a_run_hold_where_a_gen_says_nothing(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += sgf.gen() + sgf.gen(temperature=0.5) + sgf.gen(temperature=None, stop=["x"])  # type: ignore[arg-type]

    run(backend, body, sampling={"temperature": 0.0, "max_tokens": 4})
    assert [(each.temperature, each.max_tokens, each.stop) for each in backend.params] == [
        (0.0, 4, ()),
        (0.5, 4, ()),
        (0.0, 4, ("x",)),
    ]


def test_without_options_sampling_is_that_of_sgframe(backend: ScriptedBackend) -> None:
    run(backend, lambda s: s.__iadd__(sgf.gen() + sgf.gen()))
    assert backend.params == [SamplingParams(), SamplingParams()]


def test_options_of_a_run_are_refused_before_it_begins(backend: ScriptedBackend) -> None:
    with pytest.raises(TypeError, match="sampling has no option 'n'"):
        run(backend, lambda s: None, sampling={"n": 2})


# -------------------------------------------------------------------------------------------------- chat


def test_turns_are_messages(backend: ScriptedBackend) -> None:
    backend.answers = {"<assistant>": "Hi"}

    def body(s: State) -> None:
        s += "raw"
        s += sgf.system("Be ", "brief.") + sgf.user("Hello")
        s += sgf.assistant(sgf.gen("x"), "!")
        with s.role("tool"):
            s += "42"
        with s.user() as same:
            assert same is s
            s += "?"

    state = run(backend, body)
    assert state.messages() == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "tool", "content": "42"},
        {"role": "user", "content": "?"},
    ]
    assert state.text().startswith("raw<system>Be brief.</system><user>Hello</user><assistant>Hi!</assistant>")


def test_messages_have_what_an_open_turn_holds(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        with s.system():
            s += "a"
        with s.assistant():
            assert s.messages() == [{"role": "system", "content": "a"}]
            s += "b"
            assert s.messages()[1:] == [{"role": "assistant", "content": "b"}]

    run(backend, body)


def test_roles_do_not_nest(backend: ScriptedBackend) -> None:
    with pytest.raises(ValueError, match="roles do not nest"):
        sgf.user("a", sgf.assistant("b"))

    def body(s: State) -> None:
        with s.user():
            s += "a"
            with pytest.raises(ValueError, match="'assistant' begins in one of 'user'"):
                s += "lost" + sgf.assistant("b")
        with pytest.raises(ValueError, match="without a turn that is open"):
            s.end()

    assert run(backend, body).text() == "<user>a</user>"


def test_a_turn_takes_text_and_expressions() -> None:
    with pytest.raises(TypeError, match="found 5"):
        sgf.user("a", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="role is named by a str"):
        sgf.role("")


# -------------------------------------------------------------------------------------------------- programs in programs


def test_a_bound_program_is_a_value(backend: ScriptedBackend) -> None:
    @sgf.function
    def ask(s: State, question: str, mark: str = "?") -> str:
        s += question + mark + sgf.gen("answer")
        return "done"

    @sgf.function
    def main(s: State) -> str:
        s += ask.bind(question="Who")
        s += sgf.bind(ask, "Where", mark="!").bind()
        return str(s.call(ask, "When"))

    state = main.run(backend=backend)
    assert state.text() == "Who? okWhere! okWhen? ok"
    assert state.result == "done"
    assert ask.bind("Why").run(backend=backend).text() == "Why? ok"


def test_bind_refuses_arguments_that_the_program_has_not() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
        sgf.function(lambda s, a: None).bind(b=1)


def test_a_programs_arguments_may_not_have_the_names_of_runs_own() -> None:
    with pytest.raises(ValueError, match="run\\(\\) has an argument 'stream'"):
        sgf.function(lambda s, stream: None)


# -------------------------------------------------------------------------------------------------- backends


def test_without_a_backend_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="set_default_backend"):
        sgf.function(lambda s: None).run()


def test_a_default_backend_is_for_all_runs(backend: ScriptedBackend) -> None:
    sgf.set_default_backend(backend)
    try:
        assert sgf.function(lambda s: s.__iadd__(sgf.gen("x"))).run()["x"] == " ok"
    finally:
        sgf.set_default_backend(None)


def test_a_backend_is_no_url() -> None:
    with pytest.raises(TypeError, match=r"sgf.Server\(url\).*found 'http://127.0.0.1:30000'"):
        sgf.function(lambda s: None).run(backend="http://127.0.0.1:30000")


def test_an_engine_is_wrapped_once() -> None:
    engine = Engine.__new__(Engine)
    assert as_backend(engine) is as_backend(engine)


def test_the_import_is_quick() -> None:
    code = "import sys, sgframe_dsl; print(*{'torch', 'transformers', 'httpx', 'asyncio', 'rich'} & sys.modules.keys())"
    path = [each for each in sys.path if each]
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(path)}, capture_output=True, check=True
    )
    assert found.stdout.split() == []
