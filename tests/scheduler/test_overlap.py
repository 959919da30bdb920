"""Overlap: the next batch is planned before the tokens of the last are back, and nobody can tell by the texts."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.messages import Finish, ScheduleBatch, StepOutput

PROMPT = [3, 1, 4]


def sent(bench: Bench) -> ScheduleBatch:
    batch = bench.scheduler.plan(0)
    assert batch is not None
    return batch


def answer(bench: Bench, batch: ScheduleBatch) -> StepOutput:
    output = bench.worker.execute(batch)
    bench.scheduler.apply(output)
    bench.collect()
    bench.scheduler.check()
    return output


def test_a_row_goes_on_while_its_last_token_is_still_being_sampled() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4)
    first, second, third = sent(bench), sent(bench), sent(bench)
    assert [list(batch.counts) for batch in (first, second, third)] == [[3], [1], [1]]
    for batch in (first, second, third):
        answer(bench, batch)
    assert bench.outputs[1] == expected_output(PROMPT, 3)


def test_no_step_is_planned_beyond_the_last_token_that_a_request_may_have() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=2)
    sent(bench), sent(bench)
    assert bench.scheduler.plan(0) is None
    assert bench.scheduler.in_flight == 2


def test_the_token_after_a_stop_is_dropped() -> None:
    stop = expected_output(PROMPT, 3)[-1]
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=9, stop_ids=[stop])
    batches = [sent(bench) for _ in range(4)]
    for batch in batches:
        answer(bench, batch)
    assert bench.outputs[1] == expected_output(PROMPT, 9, [stop])
    assert bench.finished[1] == Finish("stop", matched=stop)


def test_what_an_ended_request_held_serves_others_while_its_last_batch_is_still_out() -> None:
    stop = expected_output(PROMPT, 1)[-1]
    bench = Bench(slots=8, max_running=1)
    bench.add(1, PROMPT, max_tokens=4, stop_ids=[stop])
    bench.add(2, [9] * 8, max_tokens=1)
    first, late = sent(bench), sent(bench)
    answer(bench, first)
    other = sent(bench)
    assert (list(other.released), list(other.counts)) == ([0], [8])
    answer(bench, late)
    answer(bench, other)
    assert bench.outputs == {1: expected_output(PROMPT, 1), 2: expected_output([9] * 8, 1)}


@pytest.mark.parametrize("steps", range(8))
def test_an_abort_at_any_moment_frees_everything_and_leaves_the_others_alone(steps: int) -> None:
    bench = Bench(max_step_tokens=8, overlap=True)
    bench.add(1, [1] * 20, max_tokens=10)
    bench.add(2, [2, 3], max_tokens=5)
    for _ in range(steps):
        bench.step()
    bench.scheduler.abort(1, "disconnect")
    bench.run()
    assert bench.finished[1] == Finish("abort", detail="disconnect")
    assert bench.outputs[1] == expected_output([1] * 20, 10)[: len(bench.outputs[1])]
    assert bench.outputs[2] == expected_output([2, 3], 5)
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == 64


def test_a_retracted_request_loses_at_most_what_was_in_flight_and_its_text_shows_no_seam() -> None:
    bench = Bench(slots=24, max_running=4, max_step_tokens=16, overlap=True)
    prompts = {1: [1, 2, 3], 2: [4, 5, 6], 3: [7, 8, 9], 4: [1, 1, 1]}
    for id, prompt in prompts.items():
        bench.add(id, prompt, max_tokens=18)
    bench.run()
    assert bench.scheduler.counters.retractions > 0
    assert bench.outputs == {id: expected_output(prompt, 18) for id, prompt in prompts.items()}


def test_memory_that_runs_out_for_long_still_brings_new_tokens() -> None:
    bench = Bench(slots=40, max_running=8, max_step_tokens=16, overlap=True)
    for id in range(1, 9):
        bench.add(id, [id] * 4, max_tokens=30)
    committed = 0
    while not bench.scheduler.idle:
        for _ in range(4):
            bench.step()
        now = sum(map(len, bench.outputs.values()))
        assert now > committed or bench.scheduler.idle
        committed = now
    assert bench.outputs == {id: expected_output([id] * 4, 30) for id in range(1, 9)}


def test_a_failed_step_ends_its_requests_and_restarts_those_that_were_only_in_the_next() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=3)
    sent(bench)
    bench.add(2, [5, 6], max_tokens=3)
    sent(bench)
    bench.scheduler.fail("RuntimeError: device lost")
    bench.scheduler.fail("PlanFault: row 0 is not what was planned")
    bench.collect()
    bench.scheduler.check()
    assert bench.finished == {1: Finish("error", detail="RuntimeError: device lost")}
    third = sent(bench)
    assert sorted(third.released) == [0, 1]
    assert [list(row.tokens) for row in third.admitted] == [[5, 6]]


def test_a_second_failure_of_its_own_ends_requests_again() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=3)
    sent(bench)
    bench.scheduler.fail("first")
    bench.add(2, PROMPT, max_tokens=3)
    sent(bench)
    bench.scheduler.fail("second")
    bench.collect()
    assert bench.finished == {1: Finish("error", detail="first"), 2: Finish("error", detail="second")}


def test_an_output_out_of_order_is_refused() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=3)
    sent(bench)
    second = sent(bench)
    with pytest.raises(AssertionError, match="the output of step 1 came for step 0"):
        bench.scheduler.apply(StepOutput(second.step, second.rows, second.rows))


@pytest.mark.parametrize("page_size", [1, 2, 16])
def test_overlap_changes_no_text(page_size: int) -> None:
    def texts(overlap: bool) -> dict[int, list[int]]:
        bench = Bench(slots=128, page_size=page_size, overlap=overlap)
        for id in range(1, 9):
            bench.add(id, [id % 3] * (5 * id), max_tokens=9, stop_ids=[0, 7])
        bench.run()
        return bench.outputs

    assert texts(overlap=True) == texts(overlap=False)
