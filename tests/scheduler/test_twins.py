"""In-batch sharing: a common new prefix is computed once, and who waits for it never waits for nothing."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.messages import CacheReport
from sgframe.sampling import TokenSampling
from sgframe_basic.cache import NoCache

PREFIX = list(range(20))


def bench(**options: object) -> Bench:
    return Bench(slots=512, max_running=8, max_step_tokens=options.pop("max_step_tokens", 256), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("overlap", [False, True])
def test_a_common_prefix_of_requests_that_come_together_is_computed_once(overlap: bool) -> None:
    run = bench(overlap=overlap)
    for id in (1, 2, 3):
        run.add(id, [*PREFIX, 30 + id], max_tokens=1)
    run.run()
    assert run.worker.computed == 20 + 3
    assert [output.cached_tokens for output in run.taken] == [0, 20, 20]
    assert run.outputs == {id: expected_output([*PREFIX, 30 + id], 1) for id in (1, 2, 3)}


def test_who_shares_a_prefix_starts_in_the_step_that_computes_it() -> None:
    run = bench()
    for id in (1, 2, 3):
        run.add(id, [*PREFIX, 30 + id], max_tokens=1)
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [21, 1, 1]
    assert run.scheduler.idle


def test_a_few_common_tokens_are_computed_once_too() -> None:
    run = bench()
    run.add(1, [1, 2, 3, 4], max_tokens=1)
    run.add(2, [1, 2, 3, 5], max_tokens=1)
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [4, 1]
    assert [output.cache for output in run.taken] == [CacheReport(0, "never_seen"), CacheReport(3, "last_token")]


def test_who_needs_a_later_chunk_of_a_prompt_starts_with_that() -> None:
    run = bench(max_step_tokens=25)
    run.add(1, [40] * 30 + PREFIX, max_tokens=1)
    run.add(2, [40] * 30 + [41] * 3, max_tokens=1)
    first, second = run.step(), run.step()
    assert first is not None and second is not None
    assert (list(first.counts), list(second.counts)) == ([25], [25])
    third = run.step()
    assert third is not None
    assert list(third.counts) == [3]
    run.run()
    assert run.worker.computed == 50 + 3


def test_others_are_admitted_past_one_that_waits_for_its_twin() -> None:
    run = bench(max_step_tokens=30)
    run.add(1, PREFIX * 2, max_tokens=1)
    run.step()
    run.add(2, [*PREFIX * 2, 2], max_tokens=1)
    run.add(3, [9, 9], max_tokens=1)
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [10, 1, 2]


def test_a_row_that_reads_what_its_step_computes_goes_on_when_the_other_is_aborted() -> None:
    run = bench(overlap=True)
    run.add(1, [*PREFIX, 31], max_tokens=9)
    run.add(2, [*PREFIX, 32], max_tokens=9)
    run.step()
    run.scheduler.abort(1, "disconnect")
    run.add(3, [8] * 300, max_tokens=1)
    run.run()
    assert run.outputs[2] == expected_output([*PREFIX, 32], 9)


def test_a_twin_takes_over_when_the_first_is_aborted() -> None:
    run = bench(max_step_tokens=8)
    run.add(1, PREFIX, max_tokens=4)
    run.add(2, PREFIX, max_tokens=4)
    run.step()
    run.scheduler.abort(1, "disconnect")
    run.run()
    assert run.outputs[2] == expected_output(PREFIX, 4)
    assert run.worker.computed == 20 + 3


def test_namespaces_are_no_twins() -> None:
    run = bench()
    run.add(1, PREFIX, max_tokens=1, namespace=(("salt", "a"),))
    run.add(2, PREFIX, max_tokens=1, namespace=(("salt", "b"),))
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [20, 20]


def test_without_a_cache_nobody_waits() -> None:
    run = bench(cache=NoCache(PluginSettings(), page_size=1, clock=StepClock()))
    run.add(1, PREFIX, max_tokens=1)
    run.add(2, PREFIX, max_tokens=1)
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [20, 20]


def test_who_wants_prompt_logprobs_shares_nothing_and_does_not_wait() -> None:
    run = bench()
    run.add(1, PREFIX, max_tokens=1)
    run.add(2, PREFIX, max_tokens=1, sampling=TokenSampling(seed=0, prompt_logprobs=0))
    batch = run.step()
    assert batch is not None
    assert list(batch.counts) == [20, 20]


def test_whole_pages_are_shared() -> None:
    run = bench(page_size=16)
    run.add(1, [*PREFIX, 1], max_tokens=1)
    run.add(2, [*PREFIX, 2], max_tokens=1)
    run.run()
    assert [output.cached_tokens for output in run.taken] == [0, 16]
