"""Which branch a program goes on with: by a vote, by a function, by a judge."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from scripted_backend import ScriptedBackend, refusal
from small_programs import run

import sgframe_dsl as sgf
from sgframe_dsl.judging import _winner
from sgframe_dsl.state import State

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


def test_when_several_voters_fail_one_error_is_raised_and_none_is_left_over(
    backend: ScriptedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.answers = {"a": refusal("too long"), "b": refusal("too long"), "c": refusal("too long")}

    def body(s: State) -> None:
        three(s, "a", "b", "c").select(by="answer")
        s["answer"]

    with pytest.raises(sgf.ProgramError, match="too long"):
        run(backend, body)
    gc.collect()
    assert "never retrieved" not in caplog.text


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
