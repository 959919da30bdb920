"""What looks like a program and would quietly do something else is refused, with what to write instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_backend import ScriptedBackend, refusal

import sgframe_dsl as sgf
from sgframe_dsl.state import State


def test_an_expression_in_an_f_string_is_refused() -> None:
    with pytest.raises(TypeError, match=r"gen cannot stand in an f-string.*use \+"):
        f"Name: {sgf.gen('name')}"


def test_a_state_in_an_f_string_is_refused(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        with pytest.raises(TypeError, match=r"use \.text\(\) or \['name'\]"):
            f"Before: {s}"

    sgf.function(body).run(backend=backend)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_state_is_copied_by_its_own_method_only(backend: ScriptedBackend, take: Callable[[Any], Any]) -> None:
    def body(s: State) -> None:
        with pytest.raises(TypeError, match=r"s\.copy\(\) is a branch of it"):
            take(s)

    sgf.function(body).run(backend=backend)


def test_a_program_that_yields_is_refused() -> None:
    def steps(s: State) -> Iterator[None]:
        s += "a"
        yield

    async def asteps(s: State) -> Any:
        s += "a"
        yield

    for program in (steps, asteps):
        with pytest.raises(TypeError, match=f"{program.__name__} yields"):
            sgf.function(program)


def test_a_programs_arguments_may_have_other_names_of_ours(backend: ScriptedBackend) -> None:
    @sgf.function
    def places(s: State, state: str, self: str, program: str) -> None:
        s += f"{state} {self} {program}"

    arguments = {"state": "Peru", "self": "me", "program": "plan"}
    inside = sgf.function(lambda s: s.call(places, **arguments)).run(backend=backend)
    (batched,) = places.run_batch([arguments], backend=backend)
    bound = sgf.bind(places, **arguments).run(backend=backend)
    assert [state.text() for state in (inside, batched, bound)] == ["Peru me plan"] * 3


def test_options_of_a_run_are_a_dict(backend: ScriptedBackend) -> None:
    with pytest.raises(TypeError, match="sampling is a dict of options, found 'greedy'"):
        sgf.function(lambda s: None).run(backend=backend, sampling="greedy")  # type: ignore[arg-type]


def test_a_wrong_key_within_an_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"gen\('x'\): logit_bias: .*found \{'5': 1\}"):
        sgf.gen("x", logit_bias={"5": 1})  # type: ignore[dict-item]


def test_an_error_may_go_to_another_process(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": refusal()}

    @sgf.function
    def program(s: State) -> None:
        s += "bad" + sgf.gen("x")

    with pytest.raises(sgf.ProgramError) as caught:
        program.run(backend=backend)
    received = pickle.loads(pickle.dumps(caught.value))
    assert (type(received), str(received), received.line) == (
        sgf.ProgramError,
        str(caught.value),
        caught.value.line,
    )
