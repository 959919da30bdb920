"""Branches of a program: forked, joined, selected from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted_backend import ScriptedBackend, refusal, scripted_backend

import sgframe_dsl as sgf
from sgframe_dsl.judging import _winner
from sgframe_dsl.state import State


@pytest.fixture
def backend() -> Iterator[ScriptedBackend]:
    with scripted_backend() as backend:
        yield backend


def run(backend: ScriptedBackend, body: Callable[[State], Any], **options: Any) -> State:
    return sgf.function(body).run(backend=backend, **options)


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


# -------------------------------------------------------------------------------------------------- select among branches


def three(s: State, *texts: str) -> sgf.Branches:
    branches = s.fork(len(texts))
    for branch, text in zip(branches, texts, strict=True):
        branch += text + sgf.gen("answer")
    return branches


def test_a_vote_goes_to_the_first_with_the_most_frequent_value(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "7", "b": "8", "c": "8"}

    def body(s: State) -> None:
        s += "Q "
        branches = three(s, "a", "b", "c")
        assert branches.select(by="answer") is s
        s += "!" + sgf.gen("next")
        assert (s["answer"], branches.chosen) == ("8", 1)
        assert s.text() == "Q b8! ok"

    state = run(backend, body)
    assert state.trace().steps[0].chosen == 1
    assert backend.said("generate")[-1] == "Q b8!"


def test_a_tie_goes_to_the_first(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "1", "b": "2", "c": "2", "d": "1"}

    def body(s: State) -> None:
        assert three(s, "a", "b", "c", "d").select("answer")["answer"] == "1"
        assert s.text() == "a1"

    run(backend, body)


@pytest.mark.parametrize(
    ("votes", "out", "winner"),
    [
        ({0: "x", 1: "x", 2: "y"}, [], 0),
        ({1: "x", 2: "x"}, [], 1),
        ({0: "x", 1: "y"}, [], 0),
        ({0: "x", 1: "x"}, [2], 0),
        ({0: "x", 1: "x"}, [2, 3], None),  # those might both say y, and a tie is not decided yet
        ({1: "x", 2: "x"}, [0], None),  # that one would be the first to say x
        ({0: "x", 1: "y", 2: "x"}, [3], None),
        ({0: "x", 1: "y", 2: "x", 3: "x"}, [4], 0),
        ({}, [0], None),
        ({}, [], None),
        ({0: ["no", "hash"], 1: ["no", "hash"]}, [], 0),
    ],
)
def test_a_vote_is_decided_when_nobody_can_change_it(votes: dict[int, Any], out: list[int], winner: int | None) -> None:
    assert _winner(votes, out) == winner


def test_branches_that_cannot_change_a_vote_are_ended_at_once(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "7", "b": "7", "c": "8"}
    backend.hold("c")  # and never let it go

    def body(s: State) -> None:
        three(s, "a", "b", "c").select(by="answer")
        assert s["answer"] == "7"

    state = run(backend, body)
    assert [step.error for step in state.trace().walk() if step.kind == "gen"] == [
        "",
        "",
        "it was ended before it was done",
    ]


def test_who_cannot_be_read_has_no_vote(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "x", "b": "x", "c": "5"}

    def body(s: State) -> None:
        branches = s.fork(4)
        for branch, text in zip(branches, "abc", strict=False):
            branch += text + sgf.gen("n", dtype=int)
        branches.select(by="n")
        assert (s["n"], branches.chosen) == (5, 2)

    run(backend, body)


def test_when_no_vote_can_be_read_the_error_says_why(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = s.fork(2)
        for branch in branches:
            branch += sgf.gen("n", dtype=int)
        branches.select(by="n")
        s["n"]

    with pytest.raises(sgf.ProgramError, match="variable 'n' is no int: ' ok'"):
        run(backend, body)


def test_the_highest_score_wins(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "short", "b": "the longest", "c": "longer"}

    def body(s: State) -> None:
        three(s, "a", "b", "c").select(by=lambda branch: len(branch["answer"]))
        assert s["answer"] == "the longest"

    run(backend, body)


@pytest.mark.parametrize("score", ["high", None, float("nan")])
def test_a_score_is_a_number(backend: ScriptedBackend, score: Any) -> None:
    def body(s: State) -> None:
        with pytest.raises(TypeError, match="not a number to compare"):
            three(s, "a", "b").select(by=lambda branch: score)

    run(backend, body)


def test_a_judge_is_shown_the_candidates_and_picks_one(backend: ScriptedBackend) -> None:
    backend.answers = {"a": "Oslo", "b": "Paris", "best is [": "2"}

    def body(s: State) -> None:
        s += "Capital? "
        branches = three(s, "a", "b")
        branches.select(by=sgf.judge("Which is right?", of="answer"))
        assert (s["answer"], branches.chosen) == ("Paris", 1)
        assert "choice" not in s
        assert s.text() == "Capital? bParis"

    run(backend, body)
    assert backend.said("select") == ["Capital? Which is right?\n[1] Oslo\n[2] Paris\nThe best is ["]


def test_a_judge_of_a_chat_is_asked_in_turns_and_may_think(backend: ScriptedBackend) -> None:
    backend.answers = {"<assistant>": "Hm.", "best is [": "1"}

    def body(s: State) -> None:
        s += sgf.user("Capital?")
        branches = s.fork(2)
        for branch in branches:
            branch += sgf.assistant("It is" + sgf.gen("answer"))
        branches.select(by=sgf.judge("Right?", of="answer", think=sgf.gen("why", max_tokens=9)))
        assert s.messages()[1]["content"] == "It is ok"

    run(backend, body)
    (asked,) = backend.said("select")
    assert asked == ("<user>Capital?</user><user>Right?\n[1] ok\n[2] ok\n</user><assistant>Hm.\nThe best is [")


def test_a_judge_is_checked_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="prompt is a str, found 5"):
        sgf.judge(5, of="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="think is a gen, found 'hm'"):
        sgf.judge("which?", of="x", think="hm")  # type: ignore[arg-type]


def test_losers_are_ended_at_once(backend: ScriptedBackend) -> None:
    held = backend.hold("more")

    def body(s: State) -> None:
        branches = three(s, "a", "b")
        branches[1] += "more" + sgf.gen("late")
        twig = branches[1].copy()
        twig += "more" + sgf.gen("later")
        assert held.reached.wait(5)
        branches.select(by=lambda branch: branch is branches[0])
        assert s.text() == "a ok"
        assert backend.aborted == ["b okmore"]
        assert len(backend.states) == 1
        with pytest.raises(sgf.ProgramError, match="branch 0 was selected"):
            branches[1]["late"]
        with pytest.raises(sgf.ProgramError, match="branch 0 was selected"):
            twig["later"]

    run(backend, body)


def test_a_variable_that_the_winner_has_not_is_told(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches = three(s, "a", "b")
        branches[1] += sgf.gen("extra")
        branches.select(by="answer")
        s["extra"]

    with pytest.raises(sgf.ProgramError, match=r"(?s)branches.select\(by=\"answer\"\).*sets no variable 'extra'"):
        run(backend, body)


def test_a_selection_would_not_lose_what_was_added_to_the_parent(backend: ScriptedBackend) -> None:
    def body(s: State) -> None:
        branches, others = three(s, "a"), three(s, "b")
        branches.select("answer")
        with pytest.raises(ValueError, match="added to after the fork"):
            others.select("answer")

    run(backend, body)


@pytest.mark.parametrize(("by", "error"), [(5, TypeError), ("answers", sgf.NoSuchVariable), (None, TypeError)])
def test_what_cannot_decide_is_refused(backend: ScriptedBackend, by: Any, error: type[Exception]) -> None:
    def body(s: State) -> None:
        branches = three(s, "a", "b")
        with pytest.raises(error, match=repr(by)):
            branches.select(by)
        with pytest.raises(ValueError, match="no select"):
            branches.chosen  # noqa: B018
        branches.select("answer")

    run(backend, body)


def test_a_tree_of_thought(backend: ScriptedBackend) -> None:
    backend.answers = {"1 ": "b", "2 ": "c", "1 b1 ": "x", "1 b2 ": "y"}

    def body(s: State) -> None:
        for _ in range(2):
            branches = s.fork(2)
            for number, branch in enumerate(branches, 1):
                branch += f"{number} " + sgf.gen("thought")
            branches.select(by=lambda branch: -ord(branch["thought"]))

    assert run(backend, body).text() == "1 b1 x"


def test_selections_in_branches_run_at_once(backend: ScriptedBackend) -> None:
    gates = [backend.hold("a0"), backend.hold("b0")]

    def body(s: State) -> None:
        branches = s.fork(2)
        for name, branch in zip("ab", branches, strict=True):
            branch += name
            three(branch, "0", "1").select(by="answer")
        for gate in gates:
            assert gate.reached.wait(5)
        for gate in gates:
            gate.open()
        branches.join()

    assert run(backend, body)["answer"] == [" ok", " ok"]


# -------------------------------------------------------------------------------------------------- failures


def test_a_failed_branch_fails_what_is_gathered_from_it_and_nothing_else(backend: ScriptedBackend) -> None:
    backend.answers = {"b": refusal("no such thing")}

    def body(s: State) -> None:
        branches = s.fork(2)
        branches[0] += "a" + sgf.gen("x")
        branches[1] += "b" + sgf.gen("x")
        branches.join()
        with pytest.raises(sgf.ProgramError, match=r"(?s)branches\[1\] \+= \"b\".*no such thing"):
            s["x"]
        s += "go on" + sgf.gen("y")

    assert run(backend, body)["y"] == " ok"


@pytest.mark.parametrize("how", ["join", "concat", "vote", "judge", "score"])
def test_nothing_hangs_on_a_failed_branch(backend: ScriptedBackend, how: str) -> None:
    backend.answers = {"b": refusal()}

    def body(s: State) -> None:
        branches = three(s, "a", "b", "c")
        match how:
            case "join":
                branches.join()
            case "concat":
                branches.join("concat")
            case "vote":
                branches.select("answer")
            case "judge":
                branches.select(sgf.judge("?", of="answer"))
            case "score":
                branches.select(lambda branch: len(branch["answer"]))
        s += sgf.gen("z")
        s["answer"]

    with pytest.raises(sgf.ProgramError, match="scripted"):
        run(backend, body)


def test_branches_of_a_state_that_failed_fail_with_it(backend: ScriptedBackend) -> None:
    backend.answers = {"bad": refusal()}

    def body(s: State) -> None:
        s += "bad" + sgf.gen("x")
        branches = s.fork(2)
        for branch in branches:
            branch += "more" + sgf.gen("y")
        for read in (lambda: branches[0]["y"], branches[1].text, branches[0].sync, s.text):
            with pytest.raises(sgf.ProgramError, match='"bad"'):
                read()

    run(backend, body)


def test_branches_of_branches_may_go_deep(backend: ScriptedBackend) -> None:
    gate = backend.hold("bad")
    backend.answers = {"bad": refusal()}

    def body(s: State) -> None:
        s += "bad" + sgf.gen("x")
        deep = s
        for _ in range(1200):
            deep = deep.copy()
        deep += sgf.gen("y")
        gate.open()
        with pytest.raises(sgf.ProgramError, match="scripted"):
            deep["y"]

    run(backend, body)
