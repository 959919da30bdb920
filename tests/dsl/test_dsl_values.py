"""What a ``gen`` gives: values of the form that was asked for."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pydantic import BaseModel
from scripted_backend import ScriptedBackend
from small_programs import run

import sgframe_dsl as sgf
from sgframe.constraints import Constraint
from sgframe_dsl.state import State

# -------------------------------------------------------------------------------------------------- values


class Person(BaseModel):
    name: str
    age: int


@pytest.mark.parametrize(
    ("options", "text", "value"),
    [
        ({"dtype": int}, " 42", 42),
        ({"dtype": float}, "-2.5e3", -2500.0),
        ({"dtype": bool}, " True", True),
        ({"dtype": bool}, "false", False),
        ({"dtype": str}, " x", " x"),
        ({"regex": "(你好|再见)[。！]"}, "再见！", "再见！"),
        ({"choices": ["yes", "no"]}, "no", "no"),
        ({"json_schema": {"type": "array"}}, "[1, 2]", [1, 2]),
        ({"json_schema": '{"type": "null"}'}, "null", None),
        ({"json_schema": Person}, '{"name": "Ada", "age": 36}', Person(name="Ada", age=36)),
    ],
)
def test_values_come_back_read(backend: ScriptedBackend, options: Any, text: str, value: object) -> None:
    backend.default = text
    found = run(backend, lambda s: s.__iadd__(sgf.gen("x", **options)))["x"]
    assert found == value
    assert type(found) is type(value)


class Address(BaseModel):
    city: str


class Open(BaseModel, extra="allow"):
    name: str


class Household(BaseModel):
    home: Address
    people: list[Person]
    second: Address | None
    anything: Open


def test_a_models_objects_have_no_properties_but_their_fields_unless_they_say_so() -> None:
    constraint = sgf.gen("x", json_schema=Household).shape.constraint
    assert constraint is not None
    schema = json.loads(constraint.text)
    assert schema["additionalProperties"] is False
    assert {name: part["additionalProperties"] for name, part in schema["$defs"].items()} == {
        "Address": False,
        "Open": True,
        "Person": False,
    }


@pytest.mark.parametrize(
    ("options", "constraint"),
    [
        ({"dtype": str}, None),
        ({"dtype": int}, Constraint("regex", " ?[+-]?[0-9]{1,18}")),
        ({"dtype": bool}, Constraint("regex", " ?(true|false|True|False)")),
        ({"regex": "a+"}, Constraint("regex", "a+")),
        ({"choices": ["ja", "nein"]}, Constraint("choice", '["ja", "nein"]')),
        ({"json_schema": {"type": "null"}}, Constraint("json_schema", '{"type": "null"}')),
        ({"json_schema": False}, Constraint("json_schema", "false")),
    ],
)
def test_a_value_is_constrained(backend: ScriptedBackend, options: Any, constraint: Constraint | None) -> None:
    run(backend, lambda s: s.__iadd__(sgf.gen("x", **options)))
    assert [params.constraint for params in backend.params] == [constraint]


@pytest.mark.parametrize(
    "options", [{"dtype": int}, {"json_schema": Person}, {"json_schema": {}}, {"choices": ["{what}"]}]
)
def test_a_value_that_was_cut_off_is_an_error_when_read(backend: ScriptedBackend, options: Any) -> None:
    backend.default = "{what}"
    state = run(backend, lambda s: s.__iadd__(sgf.gen("x", max_tokens=2, **options)))
    assert state.text() == "{w"
    with pytest.raises(sgf.ProgramError, match=r"variable 'x' is no .*: '\{w'; max_tokens cut it off"):
        state["x"]
    assert state.meta("x").text == "{w"


@pytest.mark.parametrize(
    ("text", "fits"), [(f"{'9' * 18}.5e99", True), ("1e-7", True), ("1e309", False), ("1e100", False)]
)
def test_a_float_is_finite(text: str, fits: bool) -> None:
    constraint = sgf.gen("x", dtype=float).shape.constraint
    assert constraint is not None
    assert bool(re.fullmatch(constraint.text, text)) is fits


def test_several_outputs_are_a_list_and_the_first_goes_on(backend: ScriptedBackend) -> None:
    backend.answers = {"pick ": ["1", "2", "3"]}
    state = run(backend, lambda s: s.__iadd__("pick " + sgf.gen("x", n=3, dtype=int) + "."))
    assert state["x"] == [1, 2, 3]
    assert state.text() == "pick 1."
    assert [output.text for output in state.meta("x").outputs] == ["1", "2", "3"]


def test_a_value_is_made_once(backend: ScriptedBackend) -> None:
    backend.default = "[]"
    state = run(backend, lambda s: s.__iadd__(sgf.gen("x", json_schema={"type": "array"})))
    state["x"].append(1)
    assert state["x"] == [1]


def test_a_grammar_is_prepared_while_earlier_calls_run(backend: ScriptedBackend) -> None:
    gate = backend.hold("first")

    def body(s: State) -> None:
        s += "first" + sgf.gen(regex="now")
        assert gate.reached.wait(5)
        s += sgf.gen(regex="a+") + sgf.gen(regex="a+") + sgf.gen(dtype=str)
        s.copy().__iadd__(sgf.gen(regex="b+"))
        while len(backend.prepared) < 2:
            pass
        gate.open()

    run(backend, body)
    assert backend.prepared == [Constraint("regex", "a+"), Constraint("regex", "b+")]


def test_a_grammar_that_cannot_be_prepared_is_told_by_its_gen(backend: ScriptedBackend) -> None:
    from sgframe.errors import RequestError

    backend.refused = RequestError("early")
    backend.answers = {"ok": RequestError("'(' is not closed")}

    def body(s: State) -> None:
        s += "first" + sgf.gen()
        s += sgf.gen("x", regex="(")
        s["x"]

    with pytest.raises(sgf.ProgramError, match=r"(?s)s \+= sgf.gen\(\"x\", regex=\"\(\"\).*is not closed"):
        run(backend, body)
