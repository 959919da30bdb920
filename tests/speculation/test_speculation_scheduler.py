"""Guesses in the step loop: the same tokens in fewer steps, and nothing left of what was guessed wrong."""

from __future__ import annotations

import logging

import pytest
import scripted_grammar
from scheduler_bench import VOCAB, Bench, expected_output
from scripted_speculator import ScriptedSpeculator, right, right_until, speculation, wrong

from sgframe.interfaces.backend import LEAST_SAMPLES
from sgframe.messages import Finish, Ints, StepOutput, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.speculation import Speculation

PROMPT = [3, 1, 4, 1, 5]


def counts(bench: Bench) -> list[list[int]]:
    """Of each step, until all is done."""
    found = []
    while (batch := bench.step()) is not None or not bench.scheduler.idle:
        found.append([] if batch is None else list(batch.counts))
    return found


# ------------------------------------------------------------------------------------------------ right and wrong


def test_right_guesses_give_several_tokens_a_step() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    assert counts(bench) == [[5], [5], [6]]
    assert bench.outputs[1] == expected_output(PROMPT, 12)


def test_wrong_guesses_cost_no_token_and_become_fewer() -> None:
    bench = Bench(speculation=speculation(wrong), max_running=16)
    bench.add(1, PROMPT, max_tokens=16)
    assert [step[0] - 1 for step in counts(bench)[1:]] == [4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    assert bench.outputs[1] == expected_output(PROMPT, 16)


def test_guesses_are_right_up_to_the_first_wrong_one() -> None:
    bench = Bench(speculation=speculation(right_until(lambda position: position == 8)), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    bench.step()
    batch = bench.step()
    assert batch is not None
    (guess,) = batch.guesses
    assert list(guess.tokens[:2]) == expected_output(PROMPT, 3)[1:]
    assert bench.outputs[1] == expected_output(PROMPT, 4)  # and the one that belonged there
    bench.run()
    assert bench.outputs[1] == expected_output(PROMPT, 12)


def test_the_front_hears_of_a_steps_tokens_at_once() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12, sampling=TokenSampling(seed=0, logprobs=0))
    bench.run()
    assert [len(output.tokens) for output in bench.taken] == [1, 5, 6]
    for output in bench.taken:
        assert output.forced == 0
        assert output.logprobs is not None
        assert [entry.token for entry in output.logprobs] == list(output.tokens)
        assert not any(entry.forced for entry in output.logprobs)


def test_guessed_and_accepted_tokens_are_counted() -> None:
    bench = Bench(speculation=speculation(right_until(lambda position: position == 8)), max_running=16)
    bench.add(1, PROMPT, max_tokens=4)
    bench.run()
    stats = bench.scheduler.stats()
    assert (stats.guessed_tokens, stats.accepted_tokens, stats.generated_tokens) == (2, 2, 4)


# ---------------------------------------------------------------------------------------------------- ends


def test_no_more_is_guessed_than_may_be_generated() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=4)
    assert counts(bench) == [[5], [3]]
    assert bench.finished[1] == Finish("length")


def test_a_request_of_two_tokens_has_nothing_to_guess() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=2)
    assert counts(bench) == [[5], [1]]


def test_a_stop_id_among_the_accepted_ends_the_output() -> None:
    whole = expected_output(PROMPT, 12)
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12, stop_ids=[whole[3]])
    assert counts(bench) == [[5], [5]]
    assert bench.outputs[1] == whole[:4]
    assert bench.finished[1] == Finish("stop", matched=whole[3])
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == 64


def test_logits_that_are_not_finite_end_the_request_after_right_guesses_too() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    bench.step()
    batch = bench.scheduler.plan(9.0)
    assert batch is not None
    row = batch.rows[0]
    bench.scheduler.apply(StepOutput(batch.step, ints([row] * 2), ints([batch.guesses[0].tokens[0], -1])))
    bench.collect()
    assert bench.finished[1].reason == "error"
    assert bench.scheduler.memory.pool.free == 64  # all that was cached is forgotten


# ----------------------------------------------------------------------------------------- what is left behind


@pytest.mark.parametrize("page_size", [1, 4])
def test_the_cache_sees_no_wrong_guess(page_size: int) -> None:
    def cached_after(guessing: Speculation | None) -> int:
        bench = Bench(speculation=guessing, max_running=16, page_size=page_size)
        bench.add(1, PROMPT, max_tokens=9)
        bench.run()
        bench.add(2, [*PROMPT, *bench.outputs[1], 7], max_tokens=1)
        bench.run()
        return bench.taken[-1].cached_tokens

    assert cached_after(speculation(wrong)) == cached_after(None) == (5 + 9 - 1) // page_size * page_size


def test_a_row_keeps_the_slots_of_wrong_guesses_for_its_next_tokens() -> None:
    bench = Bench(speculation=speculation(wrong), max_running=16)
    bench.add(1, PROMPT, max_tokens=9)
    bench.step()
    first, second = bench.step(), bench.step()
    assert first is not None
    assert second is not None
    assert list(second.slots) == list(first.slots[1 : 1 + len(second.slots)])


def test_a_request_may_be_aborted_while_its_guesses_are_in_flight() -> None:
    bench = Bench(speculation=speculation(wrong), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    bench.step()
    batch = bench.scheduler.plan(9.0)
    assert batch is not None
    bench.scheduler.abort(1, "test")
    assert bench.scheduler.plan(10.0) is None
    bench.scheduler.apply(bench.worker.execute(batch))
    bench.collect()
    assert bench.finished[1] == Finish("abort", detail="test")
    bench.scheduler.check()
    bench.add(2, PROMPT, max_tokens=5)
    bench.run()
    assert bench.outputs[2] == expected_output(PROMPT, 5)


# ------------------------------------------------------------------------------------------------- when it pays


def test_the_more_rows_share_a_step_the_less_is_guessed() -> None:
    def guessed(rows: int) -> int:
        bench = Bench(256, max_running=64, max_step_tokens=64, speculation=speculation(right))
        for id in range(rows):
            bench.add(id, [id + 1, 7], max_tokens=50)
        bench.step()
        batch = bench.step()
        assert batch is not None
        return len(batch.guesses[0].tokens) if batch.guesses else 0

    assert [guessed(rows) for rows in (1, 2, 4, 8, 16)] == [4, 3, 2, 1, 1]


def test_where_no_guess_is_worth_it_a_single_one_is_made_now_and_then() -> None:
    bench = Bench(256, max_running=64, max_step_tokens=64, speculation=speculation(right, wide_step=1))
    for id in range(4):
        bench.add(id, [id + 1, 7], max_tokens=9)
    bench.run()
    assert bench.scheduler.counters.guessed_tokens == 4


def test_a_single_row_is_guessed_for_as_well() -> None:
    bench = Bench(max_running=1, speculation=speculation(right))
    bench.add(1, PROMPT, max_tokens=9)
    bench.step()
    batch = bench.step()
    assert batch is not None
    assert list(batch.samples) == [5]


def test_all_samples_of_a_step_are_no_more_than_sixteen_or_the_rows_there_may_be() -> None:
    bench = Bench(256, max_running=3, max_step_tokens=64, speculation=speculation(right, wide_step=1000))
    for id in (1, 2, 3):
        bench.add(id, [id, 7], max_tokens=50)
    bench.step()
    batch = bench.step()
    assert batch is not None
    assert sum(batch.samples) == LEAST_SAMPLES == 16


def test_nothing_is_guessed_beside_a_prompt() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=30)
    bench.step()
    bench.add(2, list(range(20)), max_tokens=1)
    steps = [bench.step() for _ in range(3)]
    assert [bool(batch and batch.guesses) for batch in steps] == [False, False, True]


def test_nothing_is_guessed_after_the_last_token_of_a_prompt_that_is_not_computed_yet() -> None:
    bench = Bench(speculation=speculation(right), max_running=16, max_step_tokens=16)
    prompt = list(range(17))
    bench.add(1, prompt, max_tokens=30)
    steps = [bench.step() for _ in range(3)]
    assert [list(batch.counts) for batch in steps if batch] == [[16], [1], [5]]
    bench.add(2, [*prompt, 7], max_tokens=1)
    while 2 not in bench.finished:
        bench.step()
    assert next(output.cached_tokens for output in bench.taken if output.id == 2) == 17
    assert 1 not in bench.finished


def test_guesses_take_no_slot_that_is_not_there() -> None:
    bench = Bench(slots=12, speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=4)
    bench.add(2, [7, 7], max_tokens=4)
    assert bench.run() > 0
    assert bench.scheduler.counters.retractions == 0
    assert (bench.outputs[1], bench.outputs[2]) == (expected_output(PROMPT, 4), expected_output([7, 7], 4))


# ---------------------------------------------------------------------------------------------------- overlap


def test_nothing_is_planned_while_guesses_are_in_flight() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    bench.step()
    batch = bench.scheduler.plan(9.0)
    assert batch is not None
    assert batch.guesses
    assert bench.scheduler.plan(10.0) is None
    bench.scheduler.apply(bench.worker.execute(batch))
    assert bench.scheduler.plan(11.0) is not None


def test_a_token_that_is_still_being_sampled_is_guessed_along() -> None:
    bench = Bench(speculation=speculation(right), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    first, second = bench.scheduler.plan(1.0), bench.scheduler.plan(2.0)
    assert first is not None
    assert second is not None
    assert list(second.guesses[0].tokens) == expected_output(PROMPT, 5)[1:]
    for batch in (first, second):
        bench.scheduler.apply(bench.worker.execute(batch))
    bench.collect()
    assert bench.outputs[1] == expected_output(PROMPT, 6)


# ----------------------------------------------------------------------------------------------------- who, and how


def test_each_request_has_a_guesser_of_its_own_once_it_generates() -> None:
    speculator = ScriptedSpeculator(right)
    bench = Bench(speculation=Speculation(speculator, 16, VOCAB), max_running=16)
    bench.add(1, PROMPT, max_tokens=1)
    bench.run()
    assert speculator.guessers == 0
    for id in (2, 3):
        bench.add(id, PROMPT, max_tokens=9)
    bench.run()
    assert speculator.guessers == 2


def test_where_a_grammar_leads_nothing_is_guessed() -> None:
    script = [[6, 7], [8, 9], [6, 7], [8, 9], [6, 7]]
    bench = Bench(speculation=speculation(right), guides=scripted_grammar.guides(VOCAB), max_running=16)
    bench.add(1, PROMPT, max_tokens=9, grammar=scripted_grammar.use(script))
    bench.add(2, PROMPT, max_tokens=9)
    first, batch = bench.step(), bench.step()
    assert first is not None
    assert batch is not None
    assert [guess.row for guess in batch.guesses] == [first.admitted[1].row]
    bench.run()
    assert bench.outputs[2] == expected_output(PROMPT, 9)


def fails(tokens: Ints, limit: int) -> Ints:
    raise KeyError("no idea")


def invents(tokens: Ints, limit: int) -> Ints:
    return ints([3, VOCAB])


@pytest.mark.parametrize(
    ("guess", "words"), [(fails, "no idea"), (invents, "guessed [3, 50]; there are tokens 0 to 49")]
)
def test_a_fault_costs_a_request_its_guesses_and_no_more(guess, words: str, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(speculation=speculation(guess), max_running=16)
    bench.add(1, PROMPT, max_tokens=9)
    with caplog.at_level(logging.ERROR):
        bench.run()
    assert bench.outputs[1] == expected_output(PROMPT, 9)
    (record,) = caplog.records
    assert record.message == "the speculator failed; request 1 goes on without guesses"
    assert words in caplog.text


def test_a_guesser_may_spoil_what_it_is_given() -> None:
    def spoils(tokens: Ints, limit: int) -> Ints:
        guesses = right(tokens, limit)
        tokens.extend(guesses)
        return guesses * 2  # and gives more than was asked

    bench = Bench(speculation=speculation(spoils), max_running=16)
    bench.add(1, PROMPT, max_tokens=12)
    assert counts(bench) == [[5], [5], [6]]
    assert bench.outputs[1] == expected_output(PROMPT, 12)
