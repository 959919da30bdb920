"""Prefixes kept for programs: they outlast their request, are bounded, and give way to whoever runs."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.sampling import TokenSampling
from sgframe.scheduler.estimator import PeakEstimator
from sgframe.scheduler.limits import LeaseLimits

PROMPT = list(range(10))


def kept(bench: Bench) -> tuple[int, int, int]:
    stats = bench.scheduler.stats()
    return stats.leases, stats.lease_tokens, stats.leases_revoked


def evict_all(bench: Bench) -> int:
    """What stays cached when everything that nobody leases is forgotten."""
    bench.scheduler.flush()
    return bench.scheduler.stats().slots - bench.scheduler.stats().slots_free


def test_what_a_request_computed_stays_when_it_has_ended() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.run()
    assert kept(bench) == (1, 13, 0)  # the KV of the last token is never computed
    assert evict_all(bench) == 13


def test_without_a_lease_nothing_stays() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4)
    bench.run()
    assert kept(bench) == (0, 0, 0)
    assert evict_all(bench) == 0


def test_the_next_call_starts_from_what_was_kept() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.run()
    bench.scheduler.flush()
    bench.add(2, [*PROMPT, *bench.outputs[1], 8], max_tokens=1, lease=8)
    bench.run()
    assert bench.taken[-1].cached_tokens == 13


def test_a_released_lease_can_be_forgotten() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.run()
    bench.scheduler.release_leases([7])
    assert kept(bench) == (0, 0, 0)
    assert evict_all(bench) == 0


def test_one_that_is_released_before_its_request_ends_is_never_kept() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.step()
    bench.scheduler.release_leases([7])
    bench.run()
    assert kept(bench) == (0, 0, 0)


def test_an_aborted_request_leaves_what_it_computed() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=40, lease=7)
    bench.step()
    bench.scheduler.abort(1, "stop string")
    bench.run()
    assert kept(bench) == (1, 10, 0)


def test_a_request_that_ends_while_it_waits_leaves_nothing() -> None:
    bench = Bench(max_running=1)
    bench.add(1, [1], max_tokens=9)
    bench.add(2, PROMPT, max_tokens=4, lease=7)
    bench.step()
    bench.scheduler.abort(2, "disconnect")
    bench.run()
    assert kept(bench) == (0, 0, 0)


def test_a_failed_step_leaves_nothing_leased() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.scheduler.plan(1.0)
    bench.scheduler.fail("as asked")
    bench.collect()
    bench.scheduler.check()
    assert kept(bench) == (0, 0, 0)


def test_a_lease_on_what_a_failed_step_was_to_compute_is_revoked() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=4, lease=7)
    bench.scheduler.plan(1.0)
    bench.scheduler.abort(1, "disconnect")
    bench.scheduler.plan(2.0)
    assert kept(bench) == (1, 10, 0)
    bench.scheduler.fail("as asked")
    bench.scheduler.check()
    assert kept(bench) == (0, 0, 1)
    assert bench.scheduler.stats().slots_free == 64


def test_an_unknown_lease_is_ignored() -> None:
    bench = Bench()
    bench.scheduler.release_leases([5])
    assert kept(bench) == (0, 0, 0)


def test_the_oldest_goes_when_there_are_too_many() -> None:
    bench = Bench(leases=LeaseLimits(count=2, tokens=64))
    for number in (1, 2, 3):
        bench.add(number, [number] * 5, max_tokens=1, lease=number)
        bench.run()
    assert kept(bench) == (2, 10, 1)
    bench.scheduler.flush()
    bench.add(4, [1] * 6, max_tokens=1)
    bench.run()
    assert bench.taken[-1].cached_tokens == 0


def test_the_oldest_goes_when_they_are_too_long_together() -> None:
    bench = Bench(leases=LeaseLimits(tokens=12))
    for number in (1, 2, 3):
        bench.add(number, [number] * 5, max_tokens=1, lease=number)
        bench.run()
    assert kept(bench) == (2, 10, 1)


def test_one_that_is_longer_than_all_that_may_be_kept_is_not_kept() -> None:
    bench = Bench(leases=LeaseLimits(tokens=12))
    bench.add(1, [1] * 5, max_tokens=1, lease=1)
    bench.run()
    bench.add(2, [2] * 13, max_tokens=1, lease=2)
    bench.run()
    assert kept(bench) == (1, 5, 0)


def test_a_lease_ends_with_its_time() -> None:
    bench = Bench(leases=LeaseLimits(tokens=64, seconds=5.0))
    bench.add(1, PROMPT, max_tokens=1, lease=7)
    bench.run()
    ended = bench.clock.now
    bench.scheduler.plan(ended + 4.0)
    assert kept(bench) == (1, 10, 0)
    bench.scheduler.plan(ended + 6.0)
    assert kept(bench) == (0, 0, 1)


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_new_request_takes_the_place_of_what_is_kept(page_size: int) -> None:
    bench = Bench(slots=32, max_step_tokens=32, page_size=page_size)
    bench.add(1, [1] * 20, max_tokens=1, lease=7)
    bench.run()
    bench.add(2, [2] * 28, max_tokens=4)
    bench.run()
    assert bench.outputs[2] == expected_output([2] * 28, 4)
    assert kept(bench) == (0, 0, 1)


def test_a_request_that_runs_grows_into_what_is_kept() -> None:
    bench = Bench(slots=32, max_step_tokens=32)
    bench.add(1, [1] * 20, max_tokens=1, lease=7)
    bench.run()
    bench.add(2, [2, 3], max_tokens=29)
    bench.run()
    assert bench.outputs[2] == expected_output([2, 3], 29)
    assert bench.scheduler.counters.retractions == 0


def test_only_as_many_are_revoked_as_are_in_the_way() -> None:
    bench = Bench(slots=32, max_step_tokens=32)
    for number in (1, 2, 3):
        bench.add(number, [number] * 10, max_tokens=1, lease=number)
        bench.run()
    bench.add(4, [4] * 6, max_tokens=1)
    bench.run()
    assert kept(bench) == (2, 20, 1)


def test_a_request_that_waits_for_memory_is_admitted_when_only_leases_stand_in_its_way() -> None:
    bench = Bench(slots=40, max_step_tokens=40)
    bench.add(1, [1] * 20, max_tokens=8)
    bench.step()
    bench.add(2, [2] * 30, max_tokens=1)
    bench.step()
    assert len(bench.scheduler.waiting) == 1
    bench.scheduler.abort(1, "done")
    bench.add(3, [1] * 20, max_tokens=1, lease=9)
    bench.run()
    assert bench.outputs[2] == expected_output([2] * 30, 1)


def test_two_leases_may_keep_the_same_tokens() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=1, lease=7)
    bench.run()
    bench.add(2, PROMPT, max_tokens=1, lease=8)
    bench.run()
    bench.scheduler.release_leases([7])
    assert evict_all(bench) == 10
    bench.scheduler.release_leases([8])
    assert evict_all(bench) == 0


def test_prompt_logprobs_and_a_lease_go_together() -> None:
    bench = Bench()
    bench.add(1, PROMPT, max_tokens=1, lease=7, sampling=TokenSampling(seed=0, prompt_logprobs=0))
    bench.run()
    assert kept(bench) == (1, 10, 0)


def test_who_is_alone_starts_at_once_however_much_is_leased_and_expected() -> None:
    bench = Bench(slots=32, page_size=4, estimator=PeakEstimator(4), leases=LeaseLimits(count=8, tokens=32))
    for number in (1, 2, 3, 4):
        bench.add(number, [number] * 8, max_tokens=1, lease=number)
        bench.run()
    assert bench.scheduler.stats().slots_leased == 32
    bench.add(5, [5] * 4, max_tokens=500)
    assert bench.step() is not None
    assert kept(bench) == (3, 24, 1)
