"""Runs of small traces, with figures that can be worked out by hand, and runs of many setups."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from sgframe.errors import ConfigError
from sgframe_simulator.costs import Costs
from sgframe_simulator.simulation import Outcome, Setup, simulate
from sgframe_simulator.sweep import sweep
from sgframe_simulator.trace import Trace

COSTS = Costs(step=1.0, prefill_token=0.25, decode_token=0.5, context_token=0.0)
SetupOf = Callable[..., Setup]
TraceOf = Callable[..., Trace]


def figures(outcome: Outcome) -> Outcome:
    """Without what the wall clock says."""
    return replace(outcome, wall_seconds=0.0)


def test_the_figures_of_two_requests_one_after_the_other(trace_of: TraceOf, setup_of: SetupOf) -> None:
    """The first computes 8 tokens; the second finds 4 of 8. Each then decodes 2 more tokens, at 1.5 s a step."""
    trace = trace_of((0, 8, 3, [1, 2]), (0, 8, 3, [1, 3]))
    outcome = simulate(trace, setup_of(costs=COSTS, every_step=True))
    assert figures(outcome) == Outcome(
        requests=2,
        refused=0,
        hit_rate=25.0,
        ttft_p50=2.5,
        ttft_p99=pytest.approx(2 + 0.99),
        max_wait=0.0,
        seconds=3 + 3 + 2 + 3,
        steps=6,
        retractions=0,
        evicted_tokens=0,
        wall_seconds=0.0,
    )


@pytest.mark.parametrize("page_size", [1, 8])
@pytest.mark.parametrize("slots", [60, 400])
@pytest.mark.parametrize("load", [{"users": 5}, {"users": 0, "rate": 1.0}])
def test_merging_decode_steps_changes_nothing_but_their_number(
    trace_of: TraceOf, setup_of: SetupOf, load: dict[str, object], slots: int, page_size: int
) -> None:
    """Also where requests wait, outputs evict what is cached, and memory runs out under running ones."""
    trace = trace_of(*[(7000 * name, 8, 5 + 7 * (name % 4), [name % 3, 10 + name]) for name in range(20)])
    setup = setup_of(slots=slots, page_size=page_size, costs=COSTS, **load)
    merged, single = simulate(trace, setup), simulate(trace, replace(setup, every_step=True))
    assert merged.steps < single.steps
    assert figures(merged) == replace(figures(single), steps=merged.steps)


def test_a_request_that_finds_no_room_waits(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 8, 1, [1, 2]), (0, 8, 1, [3, 4]))
    outcome = simulate(trace, setup_of(slots=10, users=2, costs=COSTS))
    assert (outcome.max_wait, outcome.evicted_tokens) == (3.0, 6)


def test_in_an_open_loop_an_idle_server_waits_for_the_next(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 8, 1, [1, 2]), (20_000, 8, 1, [1, 2]))
    outcome = simulate(trace, setup_of(users=0, rate=2.0, costs=COSTS))
    assert outcome.seconds == 10 + 1.5
    assert outcome.hit_rate == pytest.approx(100 * 7 / 16)  # the last token of a prompt is always computed


def test_a_prompt_longer_than_the_pool_is_refused_and_not_counted(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 4, 1, [1]), (0, 40, 1, list(range(10, 20))), (0, 4, 1, [2]))
    outcome = simulate(trace, setup_of(slots=10))
    assert (outcome.requests, outcome.refused, outcome.hit_rate) == (3, 1, 0.0)


def test_a_cache_of_pages_finds_whole_ones(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 12, 1, [1, 2, 3]), (0, 12, 1, [1, 2, 4]))
    rates = [simulate(trace, setup_of(slots=64, page_size=page)).hit_rate for page in (1, 8, 16)]
    assert rates == [pytest.approx(100 * found / 24) for found in (8, 8, 0)]


# -------------------------------------------------------------------------------------------------- block level


def test_at_block_level_a_prompt_is_found_whole_and_its_last_block_padded(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 7, 5, [1, 2]), (0, 7, 5, [1, 2]), (0, 12, 5, [1, 2, 3]))
    assert simulate(trace, setup_of(block_level=True)).hit_rate == pytest.approx(100 * (7 + 8) / 26)


def test_at_block_level_a_long_prompt_enters_as_far_as_it_goes(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of((0, 12, 0, [1, 2, 3]), (0, 12, 0, [1, 2, 3]))
    assert simulate(trace, setup_of(block_level=True, slots=9)).hit_rate == pytest.approx(100 * 8 / 24)


def test_at_block_level_the_cache_has_exactly_its_blocks(trace_of: TraceOf, setup_of: SetupOf) -> None:
    """Three prompts of a block each in turn, room for two: LRU always lost the one that comes next."""
    trace = trace_of(*[(0, 4, 0, [name % 3]) for name in range(9)])
    assert simulate(trace, setup_of(block_level=True, slots=8)).hit_rate == 0
    assert simulate(trace, setup_of(block_level=True, slots=12)).hit_rate == pytest.approx(100 * 6 / 9)


# -------------------------------------------------------------------------------------------------- sweeps


def test_processes_find_what_one_alone_finds(trace_of: TraceOf, setup_of: SetupOf) -> None:
    trace = trace_of(*[(0, 8, 2, [name % 5, 10 + name]) for name in range(20)])
    setups = [setup_of(policy, slots=slots, users=4) for policy in ("fcfs", "lpm") for slots in (20, 40)]
    alone, together = (
        [run.row() | {"wall_seconds": 0} for run in sweep(trace, setups, jobs)] for jobs in (1, 2)
    )  # fmt: skip
    assert alone == together
    assert [(row["policy"], row["cache"], row["eviction"], row["slots"]) for row in alone] == [
        (policy, "radix", "lru", slots) for policy in ("fcfs", "lpm") for slots in (20, 40)
    ]
    assert alone[0]["infinite_hit_rate"] == pytest.approx(100 * 15 * 4 / 160)


def test_progress_counts_requests_over_all_runs(trace_of: TraceOf, setup_of: SetupOf) -> None:
    seen: list[int] = []
    sweep(trace_of((0, 4, 1, [1]), (0, 4, 1, [2])), [setup_of(), setup_of(cache="none")], 1, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 4


def test_a_cache_without_a_choice_of_strategy_names_none(trace_of: TraceOf, setup_of: SetupOf) -> None:
    (run,) = sweep(trace_of((0, 4, 1, [1])), [setup_of(cache="none")])
    assert run.row()["eviction"] is None


def test_a_pool_that_holds_no_prompt_is_refused(trace_of: TraceOf, setup_of: SetupOf) -> None:
    with pytest.raises(ConfigError, match=re.escape("3 slots hold no prompt of the trace, the shortest has 4 tokens")):
        sweep(trace_of((0, 4, 1, [1]), (0, 8, 1, [2, 3])), [setup_of(slots=3)])
