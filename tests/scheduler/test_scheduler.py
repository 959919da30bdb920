"""What the scheduler promises, on a worker that checks every KV slot it reads."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.messages import Finish, StepOutput, ints
from sgframe.sampling import TokenSampling
from sgframe_basic.cache import NoCache


def test_a_request_yields_its_tokens_one_a_step() -> None:
    bench = Bench()
    bench.add(1, [3, 1, 4], max_tokens=4)
    bench.run()
    assert bench.outputs[1] == expected_output([3, 1, 4], 4)
    assert bench.finished[1] == Finish("length")


def test_a_stop_id_ends_the_output_and_is_part_of_it() -> None:
    stop = expected_output([3, 1, 4], 3)[-1]
    bench = Bench()
    bench.add(1, [3, 1, 4], max_tokens=40, stop_ids=[stop])
    bench.run()
    assert bench.outputs[1] == expected_output([3, 1, 4], 40, [stop])
    assert bench.finished[1] == Finish("stop", matched=stop)


def test_a_long_prompt_is_computed_in_chunks_of_the_token_budget() -> None:
    bench = Bench(max_step_tokens=16)
    bench.add(1, [1] * 40, max_tokens=1)
    batches = [bench.step(), bench.step(), bench.step()]
    assert [list(batch.counts) for batch in batches if batch] == [[16], [16], [8]]
    assert [list(batch.samples) for batch in batches if batch] == [[0], [0], [1]]
    assert bench.outputs[1] == expected_output([1] * 40, 1)


def test_decoding_rows_go_on_while_a_long_prompt_is_computed() -> None:
    bench = Bench(max_step_tokens=16)
    bench.add(1, [5], max_tokens=10)
    bench.step()
    bench.add(2, [1] * 40, max_tokens=2)
    assert list(bench.step().counts) == [1, 15]  # type: ignore[union-attr]
    bench.run()
    assert bench.outputs[1] == expected_output([5], 10)
    assert bench.outputs[2] == expected_output([1] * 40, 2)


def test_new_requests_join_between_steps() -> None:
    bench = Bench()
    bench.add(1, [5, 6], max_tokens=8)
    bench.step()
    bench.step()
    bench.add(2, [7, 8], max_tokens=8)
    assert list(bench.step().counts) == [1, 2]  # type: ignore[union-attr]


def test_a_prompt_that_is_wholly_cached_computes_its_last_token_again() -> None:
    bench = Bench()
    bench.add(1, [1, 2, 3, 4], max_tokens=1)
    bench.run()
    computed = bench.worker.computed
    bench.add(2, [1, 2, 3, 4], max_tokens=1)
    bench.run()
    assert bench.worker.computed - computed == 1
    assert bench.taken[-1].cached_tokens == 3
    assert bench.outputs[2] == bench.outputs[1]


def test_the_next_turn_reuses_prompt_and_answer() -> None:
    bench = Bench(slots=256, max_step_tokens=64)
    first = list(range(40))
    bench.add(1, first, max_tokens=20)
    bench.run()
    turn = first + bench.outputs[1] + [7, 7, 7]
    bench.add(2, turn, max_tokens=2)
    bench.run()
    assert bench.taken[-1].cached_tokens == 59  # the answer's last token was never computed


def test_namespaces_do_not_share() -> None:
    bench = Bench()
    bench.add(1, [1, 2, 3, 4], max_tokens=1, namespace=(("salt", "a"),))
    bench.run()
    bench.add(2, [1, 2, 3, 4], max_tokens=1, namespace=(("salt", "b"),))
    bench.add(3, [1, 2, 3, 4], max_tokens=1)
    bench.run()
    assert {output.id: output.cached_tokens for output in bench.taken} == {1: 0, 2: 0, 3: 0}


def test_short_twins_in_one_step_end_up_on_the_same_slots() -> None:
    bench = Bench()
    bench.add(1, [1, 2, 3, 4], max_tokens=3)
    bench.add(2, [1, 2, 3, 4], max_tokens=3)
    bench.step()
    stats = bench.scheduler.stats()
    assert stats.slots - stats.slots_free == 4
    bench.run()
    assert bench.outputs[1] == bench.outputs[2] == expected_output([1, 2, 3, 4], 3)


def test_without_output_only_the_prompt_is_computed() -> None:
    bench = Bench()
    bench.add(1, [1, 2, 3], max_tokens=0)
    bench.run()
    assert bench.outputs[1] == []
    assert bench.finished[1] == Finish("length")
    assert bench.worker.computed == 3


def test_memory_pressure_retracts_the_youngest_and_no_text_changes() -> None:
    bench = Bench(slots=24, max_running=4, max_step_tokens=16)
    prompts = {1: [1, 2, 3], 2: [4, 5, 6], 3: [7, 8, 9], 4: [1, 1, 1]}
    for id, prompt in prompts.items():
        bench.add(id, prompt, max_tokens=18)
    bench.run()
    assert bench.scheduler.counters.retractions > 0
    assert bench.outputs == {id: expected_output(prompt, 18) for id, prompt in prompts.items()}


def test_an_output_that_outgrows_the_pool_ends_with_length_and_the_service_goes_on() -> None:
    bench = Bench(slots=20)
    bench.add(1, [1, 2, 3], max_tokens=1000)
    bench.add(2, [4, 5], max_tokens=3)
    bench.run()
    assert bench.outputs[1] == expected_output([1, 2, 3], 18)  # the last token needs no slot
    assert bench.finished[1] == Finish("length")
    assert bench.outputs[2] == expected_output([4, 5], 3)


def test_a_prompt_longer_than_the_pool_is_an_error_with_the_numbers() -> None:
    bench = Bench(slots=20)
    bench.add(1, [1] * 21)
    bench.add(2, [4, 5], max_tokens=3)
    bench.run()
    assert bench.finished[1] == Finish("error", detail="the prompt has 21 tokens and the KV pool 20 slots: shorten it")
    assert bench.outputs[2] == expected_output([4, 5], 3)


def test_a_request_may_fill_the_whole_pool() -> None:
    bench = Bench(slots=20)
    bench.add(1, [1, 2, 3], max_tokens=18)
    bench.run()
    assert bench.outputs[1] == expected_output([1, 2, 3], 18)


def test_what_is_cached_makes_room_for_what_runs() -> None:
    bench = Bench(slots=20)
    bench.add(1, [1, 2, 3, 4, 5, 6, 7, 8], max_tokens=1)
    bench.run()
    bench.add(2, [9] * 16, max_tokens=4)
    bench.run()
    assert bench.outputs[2] == expected_output([9] * 16, 4)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
def test_abort_in_any_phase_frees_everything(steps: int) -> None:
    bench = Bench(max_step_tokens=8)
    bench.add(1, [1] * 20, max_tokens=10)
    bench.add(2, [2, 3], max_tokens=3)
    for _ in range(steps):
        bench.step()
    bench.scheduler.abort(1, "disconnect")
    bench.run()
    assert bench.finished[1] == Finish("abort", detail="disconnect")
    assert bench.outputs[2] == expected_output([2, 3], 3)
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == 64


def test_abort_matches_ids_exactly() -> None:
    bench = Bench()
    bench.add(1, [1], max_tokens=3)
    bench.add(10, [2], max_tokens=3)
    bench.scheduler.abort(1, "x")
    bench.scheduler.abort(99, "x")
    bench.run()
    assert bench.finished[1].reason == "abort"
    assert bench.outputs[10] == expected_output([2], 3)


def test_a_token_of_minus_one_ends_that_request_alone() -> None:
    bench = Bench()
    bench.add(1, [1, 2], max_tokens=3)
    bench.add(2, [3, 4], max_tokens=3)
    batch = bench.scheduler.plan(1)
    assert batch is not None
    output = bench.worker.execute(batch)
    bench.scheduler.apply(StepOutput(output.step, output.rows, ints([-1, output.tokens[1]])))
    bench.collect()
    bench.run()
    assert bench.finished[1].reason == "error"
    assert bench.outputs[2] == expected_output([3, 4], 3)


def test_what_a_prompt_that_is_not_finite_computed_is_not_cached() -> None:
    bench = Bench()
    bench.add(1, [1, 2, 3, 4, 5, 6], max_tokens=4)
    batch = bench.scheduler.plan(1)
    assert batch is not None
    bench.worker.execute(batch)
    bench.scheduler.apply(StepOutput(batch.step, batch.rows, ints([-1])))
    bench.collect()
    assert bench.finished[1].reason == "error"
    assert bench.scheduler.memory.cache.stats().evictable == 0


def test_a_failed_step_ends_its_requests_and_the_next_ones_run() -> None:
    bench = Bench()
    bench.add(1, [1, 2], max_tokens=3)
    bench.scheduler.plan(1)
    bench.scheduler.fail("RuntimeError: device lost")
    bench.collect()
    bench.scheduler.check()
    assert bench.finished[1] == Finish("error", detail="RuntimeError: device lost")
    bench.worker = type(bench.worker)()
    bench.add(2, [1, 2], max_tokens=3)
    bench.scheduler._next.released = ints()
    bench.run()
    assert bench.outputs[2] == expected_output([1, 2], 3)


def test_prompt_logprobs_come_once_and_whole_even_in_chunks_and_from_a_warm_cache() -> None:
    bench = Bench(max_step_tokens=8)
    prompt = list(range(20))
    bench.add(1, prompt, max_tokens=1)
    bench.run()
    bench.add(2, prompt, max_tokens=3, sampling=TokenSampling(seed=0, prompt_logprobs=0))
    bench.run()
    answers = [output for output in bench.taken if output.id == 2]
    assert [entry.logprob for entry in answers[0].prompt_logprobs or []] == [-float(p) for p in range(1, 20)]
    assert [output.prompt_logprobs for output in answers[1:]] == [None, None]
    assert answers[0].cached_tokens == 0


def test_without_a_cache_nothing_is_shared_and_all_is_freed() -> None:
    bench = Bench(cache=NoCache(PluginSettings(), page_size=1, clock=StepClock()))
    for id in (1, 2):
        bench.add(id, [1, 2, 3, 4], max_tokens=3)
    bench.run()
    assert bench.scheduler.memory.pool.free == 64
    assert bench.scheduler.counters.cached_tokens == 0


def test_the_same_messages_give_the_same_batches() -> None:
    def batches() -> list[object]:
        bench = Bench(slots=30)
        for id in range(1, 9):
            bench.add(id, [id % 3] * (id + 2), max_tokens=9)
        return [bench.step() for _ in range(60)]

    assert batches() == batches()
