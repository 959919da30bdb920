"""Branches of a program: forked, joined, selected from."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_backend import ScriptedBackend
from small_programs import run

import sgframe_dsl as sgf
from sgframe_dsl.state import State

# -------------------------------------------------------------------------------------------------- fork


def test_branches_go_on_from_one_point_each_by_itself(backend: ScriptedBackend) -> None:
    backend.answers = {"top left": " L", "top right": " R"}

    def body(s: State) -> None:
        s += "top "
        left, right = s.fork(2)
        left += "left" + sgf.gen("x")
        right += "right" + sgf.gen("x")
        s += "alone"
        assert (left.text(), right.text(), s.text()) == ("top left L", "top right R", "top alone")

    run(backend, body)


def test_branches_run_at_once(backend: ScriptedBackend) -> None:
    first, second = backend.hold("a"), backend.hold("b")

    def body(s: State) -> None:
        branches = s.fork(2)
        for branch, text in zip(branches, "ab", strict=True):
            branch += text + sgf.gen("x")
        assert first.reached.wait(5)
        assert second.reached.wait(5)
        first.open()
        second.open()

    run(backend, body)


def test_a_fork_before_any_text_sends_nothing(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += ""
        branches = s.fork(2)
        branches[0] += "a" + sgf.gen("x")
        assert branches[0]["x"] == " ok"

    run(backend, body)
    assert backend.calls == [("generate", "a")]


def test_a_branch_sees_the_variables_as_they_were(backend: ScriptedBackend) -> None:
    backend.answers = {"1": "one", "2": "two", "3": "three"}

    def body(s: State) -> None:
        s += "1" + sgf.gen("x")
        branch = s.copy()
        s += "2" + sgf.gen("x")
        branch += "3" + sgf.gen("y")
        assert (branch["x"], branch["y"], s["x"]) == ("one", "three", "two")
        assert "y" not in s

    run(backend, body)


def test_branches_are_a_sequence(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(3)
        for number, branch in enumerate(branches):
            branch += f"{number}" + sgf.gen("x")
        assert (len(branches), list(branches)[2], branches[-1], branches[1:]) == (
            3,
            branches[2],
            branches[2],
            [*branches][1:],
        )
        assert branches["x"] == [" ok", " ok", " ok"]
        with pytest.raises(TypeError, match="cannot be replaced"):
            branches[0] = branches[1]

    run(backend, body)


@pytest.mark.parametrize(
    ("count", "error"), [(0, ValueError), (-1, ValueError), (True, TypeError), ("2", TypeError), (2.0, TypeError)]
)
def test_a_fork_has_a_number_of_branches(backend: ScriptedBackend, count: Any, error: type[Exception]) -> None:
    def body(s: State) -> None:
        with pytest.raises(error, match=f"found {count!r}"):
            s.fork(count)

    run(backend, body)
    assert backend.calls == []


def test_a_fork_in_a_turn_goes_on_in_it(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += sgf.user("Parent")
        with s.assistant():
            (child,) = s.fork(1)
            child += "Child"
            child.end()
            assert child.messages() == [
                {"role": "user", "content": "Parent"},
                {"role": "assistant", "content": "Child"},
            ]
        child += sgf.user("more")
        assert child.messages()[2:] == [{"role": "user", "content": "more"}]

    assert run(backend, body).messages() == [
        {"role": "user", "content": "Parent"},
        {"role": "assistant", "content": ""},
    ]


def test_forks_of_forks(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(2)
        for name, branch in zip("ab", branches, strict=True):
            branch += name
            twigs = branch.fork(2)
            for twig_name, twig in zip("xy", twigs, strict=True):
                twig += twig_name + sgf.gen("end")
            twigs.join()
        branches.join()

    assert run(backend, body)["end"] == [[" ok", " ok"], [" ok", " ok"]]
    assert sorted(backend.said("generate")) == ["ax", "ay", "bx", "by"]


# -------------------------------------------------------------------------------------------------- join


def test_a_join_gathers_variables_and_leaves_the_text(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "1", "b": "2"}

    def body(s: State) -> None:
        s += "start" + sgf.gen("mine") + " "
        branches = s.fork(2)
        branches[0] += "a" + sgf.gen("x", dtype=int)
        branches[1] += "b" + sgf.gen("x", dtype=int)
        branches[1] += "c" + sgf.gen("y")
        assert branches.join() is s
        assert (s["x"], s["y"], s["mine"]) == ([1, 2], [None, " ok"], " ok")
        assert [meta and meta.text for meta in s.meta("y")] == [None, " ok"]
        s += "end"

    assert run(backend, body).text() == "start ok end"


def test_a_join_returns_at_once_and_a_variable_is_waited_for_alone(backend: ScriptedBackend) -> None:
    gate = backend.hold("slow")

    def body(s: State) -> None:
        branches = s.fork(2)
        for branch in branches:
            branch += "a" + sgf.gen("x") + "slow" + sgf.gen("y")
        branches.join()
        assert s["x"] == [" ok", " ok"]
        gate.open()
        assert s["y"] == [" ok", " ok"]

    run(backend, body)


def test_a_join_lets_go_of_the_branches(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += "a"
        branches = s.fork(3)
        for branch in branches:
            branch += sgf.gen("x")
        branches.join()
        for branch in branches:
            assert branch.text() == "a ok"
        assert len(backend.states) == 1

    run(backend, body)


def test_joined_branches_are_closed(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(2)
        branches[0] += "a" + sgf.gen("x")
        branches.join()
        for use in (
            lambda: branches[0].__iadd__("more"),
            lambda: branches[1].fork(2),
            branches.join,
            lambda: branches.select("x"),
        ):
            with pytest.raises(sgf.ProgramError, match="joined: go on with the state that they were forked from"):
                use()
        assert branches[0]["x"] == " ok"

    run(backend, body)


def test_a_concatenation_adds_the_texts_in_order(backend: ScriptedBackend) -> None:
    slow = backend.hold("one")

    def body(s: State) -> None:
        s += "start "
        branches = s.fork(2)
        branches[0] += "one" + sgf.gen("x") + ", "
        branches[1] += "two" + sgf.gen("x") + "."
        branches.join("concat")
        s += " end" + sgf.gen("y")
        slow.open()
        assert s["x"] == [" ok", " ok"]
        assert s.text() == "start one ok, two ok. end ok"
        assert len(backend.states) == 1

    run(backend, body)
    assert backend.said("generate")[-1] == "start one ok, two ok. end"


def test_a_concatenation_keeps_turns(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        s += sgf.user("Name two.")
        with s.assistant():
            branches = s.fork(2)
            for branch in branches:
                branch += "and" + sgf.gen("x")
            branches.join("concat")
        assert s.messages()[1] == {"role": "assistant", "content": "and okand ok"}

    run(backend, body)


def test_a_concatenation_wants_the_turns_as_they_were(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(2)
        branches[1].begin("user")
        with pytest.raises(ValueError, match="branch 1 has the turn of 'user' open where no turn should be"):
            branches.join("concat")
        branches[1].end()
        branches.join("concat")
        with pytest.raises(ValueError, match="'gather' or 'concat', found 'cat'"):
            s.fork(1).join("cat")

    run(backend, body)
