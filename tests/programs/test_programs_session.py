"""A session's states on a scripted engine: what is asked of the engine, what becomes of leases, how calls end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_engine import ScriptedEngine

from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, EngineDead, Overloaded, RequestError, RequestFailed
from sgframe.messages import Finish
from sgframe.sampling import SamplingParams
from sgframe_programs.parts import Begin, Branch, End, Text
from sgframe_programs.session import Session
from sgframe_simulated.tokenizer import BOS, EOS

PARAMS = SamplingParams(max_tokens=8)
PARIS = ["Paris", "Parma"]


def session_on(engine: ScriptedEngine, **options: Any) -> Session:
    session = Session(engine, **options)  # type: ignore[arg-type]
    session.open(0)
    return session


# ------------------------------------------------------------------------------------------------ generating


async def test_the_prompt_is_the_text_and_the_next_one_goes_on_by_the_answers_ids() -> None:
    engine = ScriptedEngine(b"bc")
    session = session_on(engine)
    generated = await session.generate(0, [Text("a")], PARAMS)
    assert (generated.outputs[0].text, generated.outputs[0].tokens, generated.rendered) == ("bc", [*b"bc"], "a")
    await session.generate(0, [Text("d")], PARAMS)
    assert [asked.prompt for asked in engine.asked] == [(BOS, *b"a"), (BOS, *b"abcd")]


async def test_the_stop_token_is_not_in_the_next_prompt() -> None:
    engine = ScriptedEngine([*b"b", EOS])
    engine.finish = Finish("stop", matched=EOS)
    session = session_on(engine)
    output = (await session.generate(0, [Text("a")], PARAMS)).outputs[0]
    assert (output.text, output.tokens, output.finish_reason, output.stop_match) == ("b", [*b"b"], "stop", EOS)
    await session.generate(0, [], PARAMS)
    assert engine.asked[1].prompt == (BOS, *b"ab")


async def test_the_stop_string_is_not_in_the_next_prompt() -> None:
    engine = ScriptedEngine(b"bc\n\nd")
    session = session_on(engine)
    output = (await session.generate(0, [Text("a")], SamplingParams(stop=("\n\n",)))).outputs[0]
    assert (output.text, output.tokens, output.stop_match) == ("bc", [*b"bc"], "\n\n")
    await session.generate(0, [Text("!")], PARAMS)
    assert engine.asked[1].prompt == (BOS, *b"abc!")


async def test_of_several_outputs_the_state_goes_on_with_the_first() -> None:
    engine = ScriptedEngine(b"xy")
    session = session_on(engine)
    heard: list[str] = []
    generated = await session.generate(0, [Text("a")], SamplingParams(n=3), heard.append)
    assert [output.text for output in generated.outputs] == ["xy"] * 3
    assert "".join(heard) == "xy"
    assert (generated.cost.prompt_tokens, generated.cost.output_tokens) == (2, 6)
    await session.generate(0, [], PARAMS)
    assert engine.asked[1].prompt == (BOS, *b"axy")


async def test_a_chat_is_asked_by_the_template() -> None:
    engine = ScriptedEngine(b"Yes")
    session = session_on(engine)
    generated = await session.generate(0, [Begin("user"), Text("?"), End(), Begin("assistant")], PARAMS)
    expected = "<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n"
    assert generated.rendered == expected
    assert list(engine.asked[0].prompt) == engine.tokenizer.encode(expected, add_special_tokens=False)


async def test_extend_computes_nothing_and_tells_the_text() -> None:
    engine = ScriptedEngine()
    assert await session_on(engine).extend(0, [Text("a"), Text("b")]) == "ab"
    assert engine.asked == []


async def test_the_namespace_goes_with_every_request() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine, namespace=(("salt", "s"),))
    await session.generate(0, [Text("a")], PARAMS)
    await session.select(0, [], PARIS, "unconditional_normalized")
    assert [asked.namespace for asked in engine.asked] == [(("salt", "s"),)] * 3


# ------------------------------------------------------------------------------------------------ choosing


async def test_choices_are_scored_after_the_prompt_and_the_state_goes_on_with_the_best() -> None:
    engine = ScriptedEngine(b"!")
    engine.logprob = lambda before, token: -0.1 if token in b"Parma" else -1.0
    session = session_on(engine)
    selected = await session.select(0, [Text("in ")], PARIS, "token_length_normalized")
    assert (engine.asked[0].prompt, engine.asked[0].paths) == ((BOS, *b"in "), [[*b"Paris"], [*b"Parma"]])
    assert (selected.index, selected.rendered, selected.tokens) == (1, "in ", [[*b"Paris"], [*b"Parma"]])
    assert selected.scores == [pytest.approx(-2.3 / 5), pytest.approx(-0.1)]
    await session.generate(0, [Text(".")], PARAMS)
    assert engine.asked[1].prompt == (BOS, *b"in Parma.")


async def test_against_nothing_is_after_the_bos_alone() -> None:
    engine = ScriptedEngine()
    selected = await session_on(engine).select(0, [Text("in ")], PARIS, "unconditional_normalized")
    assert [asked.prompt for asked in engine.asked] == [(BOS, *b"in "), (BOS,)]
    assert selected.unconditional == [[-1.0] * 5] * 2
    assert [asked.lease for asked in engine.asked] == [1, 0]


@pytest.mark.parametrize(
    ("choices", "reason"),
    [([], "at least one choice"), (["a", ""], "empty"), (["a", "b", "a"], "'a' stands twice")],
)
async def test_choices_that_are_none_are_refused(choices: list[str], reason: str) -> None:
    engine = ScriptedEngine()
    with pytest.raises(RequestError, match=reason):
        await session_on(engine).select(0, [Text("x")], choices, "greedy_token")
    assert engine.asked == []


# ------------------------------------------------------------------------------------------------ forks


async def test_branches_go_on_from_one_point_and_texts_that_meet_are_one() -> None:
    engine = ScriptedEngine(b"1", b"2", b"3")
    session = session_on(engine)
    await session.extend(0, [Text("ab")])
    session.fork(0, [1, 2])
    await session.generate(1, [Text("c")], PARAMS)
    await session.generate(2, [], PARAMS)
    await session.generate(0, [Text("d")], PARAMS)
    assert [asked.prompt for asked in engine.asked] == [(BOS, *b"abc"), (BOS, *b"ab"), (BOS, *b"abd")]


async def test_lineages_tell_program_fork_and_branch() -> None:
    engine = ScriptedEngine(b"x")
    session = session_on(engine)
    session.fork(0, [1, 2])
    session.fork(0, [3])
    session.fork(2, [4, 5])
    session.open(6)
    for state in (0, 1, 2, 3, 5, 6):
        await session.generate(state, [Text("a")], PARAMS)
    root = engine.asked[0].lineage[0]
    lineages = [asked.lineage for asked in engine.asked]
    assert lineages[:5] == [(root,), (root, 0, 0), (root, 0, 1), (root, 1, 0), (root, 0, 1, 0, 1)]
    assert lineages[5][0] != root


async def test_a_lineage_grows_no_longer_than_its_bound() -> None:
    engine = ScriptedEngine(b"x")
    session = session_on(engine)
    for state in range(100):
        session.fork(state, [state + 1])
    await session.generate(100, [Text("a")], PARAMS)
    assert len(engine.asked[0].lineage) == 127


async def test_a_join_adds_what_the_branches_got_by_the_ids_that_they_were_given() -> None:
    engine = ScriptedEngine([200, 201], b"y", b"z")
    session = session_on(engine)
    await session.extend(0, [Text("a")])
    session.fork(0, [1, 2])
    await session.generate(1, [Text("b")], PARAMS)
    await session.generate(2, [Text("c")], PARAMS)
    await session.extend(2, [Text("d")])
    assert await session.extend(0, [Branch(1), Branch(2)]) == "b\ufffd\ufffdcyd"
    await session.generate(0, [Text("!")], PARAMS)
    assert engine.asked[2].prompt == (BOS, *b"ab", 200, 201, *b"cyd!")


async def test_a_join_adds_a_branchs_turns() -> None:
    session = session_on(ScriptedEngine())
    await session.extend(0, [Begin("user"), Text("a")])
    session.fork(0, [1])
    await session.extend(1, [Text("b"), End(), Begin("assistant")])
    assert await session.extend(0, [Branch(1)]) == "b<|im_end|>\n<|im_start|>assistant\n"


# ------------------------------------------------------------------------------------------------ leases


async def test_each_call_leaves_its_state_on_a_new_lease_and_lets_go_of_the_last() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    await session.generate(0, [Text("a")], PARAMS)
    await session.select(0, [], PARIS, "greedy_token")
    assert [asked.lease for asked in engine.asked] == [1, 2]
    assert engine.leases == [2]


async def test_a_lease_is_held_until_the_last_of_those_on_it_has_moved_on() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    await session.generate(0, [Text("a")], PARAMS)
    session.fork(0, [1, 2])
    await session.generate(0, [], PARAMS)
    await session.generate(1, [], PARAMS)
    assert engine.leases == [1, 2, 3]
    session.discard([2])
    assert engine.leases == [2, 3]


async def test_a_parent_that_joins_one_branch_stands_on_its_lease() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    await session.generate(0, [Text("a")], PARAMS)
    session.fork(0, [1, 2])
    await session.generate(1, [Text("b")], PARAMS)
    await session.generate(2, [Text("c")], PARAMS)
    await session.extend(0, [Branch(1), Branch(2)])
    session.discard([1, 2])
    assert engine.leases == [2]


@pytest.mark.parametrize("kind", ["generate", "select"])
async def test_a_failed_call_gives_all_leases_back_and_leaves_a_state_to_discard(kind: str) -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    await session.generate(0, [Text("a")], PARAMS)
    engine.fails = Overloaded("too many")
    with pytest.raises(Overloaded, match="too many"):
        await call(session, kind)
    assert engine.leases == []
    engine.fails = None
    with pytest.raises(RequestError, match="can only be discarded"):
        await call(session, kind)
    session.discard([0])


def call(session: Session, kind: str) -> Any:
    if kind == "select":
        return session.select(0, [], PARIS, "unconditional_normalized")
    return session.generate(0, [Text("a")], PARAMS)


async def test_closing_gives_all_leases_back() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    await session.generate(0, [Text("a")], PARAMS)
    session.fork(0, [1, 2])
    session.open(3)
    await session.generate(3, [Text("a")], PARAMS)
    session.close()
    assert engine.leases == []


# ------------------------------------------------------------------------------------------------ ends


async def begun(session: Session, engine: ScriptedEngine, kind: str) -> asyncio.Task[Any]:
    engine.hold.clear()
    task = asyncio.create_task(call(session, kind))
    while not engine.asked:
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("kind", ["generate", "select"])
async def test_discarding_a_state_ends_what_runs_on_it(kind: str) -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    running = await begun(session, engine, kind)
    session.discard([0])
    with pytest.raises(RequestError, match="state 0 was discarded while a call ran on it"):
        await running
    assert engine.leases == []
    assert engine.aborts == (["abandoned by its caller"] if kind == "generate" else [])


async def test_a_cancelled_call_ends_its_work() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    running = await begun(session, engine, "generate")
    running.cancel()
    session.discard([0])
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (engine.aborts, engine.leases) == (["abandoned by its caller"], [])


async def test_a_busy_state_takes_no_other_call() -> None:
    engine = ScriptedEngine(b"b")
    session = session_on(engine)
    running = await begun(session, engine, "generate")
    session.open(1)
    for refused in (session.extend(0, [Text("x")]), call(session, "select"), session.extend(1, [Branch(0)])):
        with pytest.raises(RequestError, match="state 0 is busy"):
            await refused
    with pytest.raises(RequestError, match="state 0 is busy"):
        session.fork(0, [2])
    engine.hold.set()
    assert (await running).outputs[0].text == "b"


async def test_an_output_that_was_aborted_is_an_error() -> None:
    engine = ScriptedEngine(b"b")
    engine.finish = Finish("abort", detail="timeout after 1 s")
    with pytest.raises(RequestFailed, match="timeout after 1 s"):
        await session_on(engine).generate(0, [Text("a")], PARAMS)


async def test_what_the_callers_ear_raises_ends_the_call() -> None:
    engine = ScriptedEngine(b"b")

    def ear(text: str) -> None:
        raise ValueError(text)

    with pytest.raises(ValueError, match="b"):
        await session_on(engine).generate(0, [Text("a")], PARAMS, ear)
    assert engine.leases == []


async def test_prompt_logprobs_are_refused() -> None:
    with pytest.raises(RequestError, match="prompt_logprobs"):
        await session_on(ScriptedEngine()).generate(0, [Text("a")], SamplingParams(prompt_logprobs=1))


async def test_preparing_a_constraint_raises_what_using_it_would() -> None:
    engine = ScriptedEngine()
    await session_on(engine).prepare(Constraint("regex", "a"))
    engine.fails = EngineDead("gone")
    with pytest.raises(EngineDead):
        await session_on(engine).prepare(Constraint("regex", "a"))


# ------------------------------------------------------------------------------------------------ numbers and bounds


async def test_states_that_are_not_there_are_refused() -> None:
    session = session_on(ScriptedEngine())
    session.discard([0, 0, 7])
    with pytest.raises(RequestError, match="there is no state 0"):
        await session.extend(0, [])
    with pytest.raises(RequestError, match="there is no state 7"):
        session.fork(7, [8])


def test_numbers_are_new_and_different() -> None:
    session = session_on(ScriptedEngine())
    for numbers, reason in (([1, 0], "state 0 exists already"), ([1, 1], "not all different")):
        with pytest.raises(RequestError, match=reason):
            session.fork(0, numbers)
    with pytest.raises(RequestError, match="state 0 exists already"):
        session.open(0)
    session.fork(0, [1])  # which no refused fork has made


def test_states_are_bounded() -> None:
    session = session_on(ScriptedEngine(), most_states=3)
    session.fork(0, [1, 2])
    with pytest.raises(Overloaded, match="3 states are live and 1 more are asked for, the limit is 3"):
        session.open(3)
    session.discard([1])
    session.open(3)


async def test_a_text_that_can_fit_no_context_is_refused_before_it_is_encoded() -> None:
    with pytest.raises(ContextLengthExceeded, match="holds 4096 tokens"):
        await session_on(ScriptedEngine()).extend(0, [Text("a" * (4096 * 128 + 1))])
