"""Whatever is guessed, under random arrivals, aborts and small memory: the right tokens, and every slot has one owner."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_bench import Bench, NoReserve, expected_output
from scripted_speculator import right_until, speculation

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.scheduler.estimator import PeakEstimator, RatioEstimator
from sgframe.scheduler.shadow import Shadow, Simulation
from sgframe_basic.cache import NoCache
from sgframe_basic.policy import FirstComeFirstServed

PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12)
ARRIVALS = st.lists(st.tuples(st.integers(0, 6), PROMPTS, st.integers(0, 24)), min_size=1, max_size=10)


@settings(max_examples=60, deadline=None)
@given(
    arrivals=ARRIVALS,
    slots=st.integers(40, 72),
    max_running=st.integers(1, 8),
    aborts=st.dictionaries(st.integers(1, 10), st.integers(0, 20), max_size=3),
    cached=st.booleans(),
    estimator=st.sampled_from([NoReserve, RatioEstimator, PeakEstimator]),
    page_size=st.sampled_from([1, 2, 4]),
    overlap=st.booleans(),
    stop_ids=st.lists(st.integers(0, 49), max_size=4),
    wrong=st.lists(st.booleans(), min_size=1, max_size=7),
    wide_step=st.sampled_from([4, 64, 10_000]),
)
def test_guesses_change_no_text_and_no_account(
    arrivals,
    slots,
    max_running,
    aborts,
    cached,
    estimator,
    page_size,
    overlap,
    stop_ids,
    wrong,
    wide_step,
) -> None:
    def no_cache() -> NoCache:
        return NoCache(PluginSettings(), page_size=page_size, clock=StepClock())

    shadow = Simulation(slots, page_size, no_cache(), FirstComeFirstServed(PluginSettings()))
    bench = Bench(
        slots,
        max_running,
        max_step_tokens=12,
        cache=None if cached else no_cache(),
        estimator=estimator(page_size),
        page_size=page_size,
        overlap=overlap,
        shadow=Shadow("fcfs", "none", shadow),
        speculation=speculation(right_until(lambda position: wrong[position % len(wrong)]), wide_step),
    )
    for id, (pause, prompt, max_tokens) in enumerate(arrivals, 1):
        bench.add(id, prompt, max_tokens=max_tokens, stop_ids=stop_ids)
        for _ in range(pause):
            _step(bench, aborts)
    for _ in range(2000):
        if _step(bench, aborts) is None and bench.scheduler.idle:
            break
    assert bench.scheduler.idle
    for id, request in bench.prompts.items():
        whole = expected_output(request.tokens, request.max_tokens, stop_ids)
        aborted = bench.finished[id].reason == "abort"
        assert bench.outputs[id] == (whole[: len(bench.outputs[id])] if aborted else whole)
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == slots // page_size * page_size
    assert bench.scheduler.stats().shadow is not None  # it has followed to the end


def _step(bench: Bench, aborts: dict[int, int]) -> object:
    for id, when in aborts.items():
        if when == bench.scheduler.counters.steps:
            bench.scheduler.abort(id, "test")
    return bench.step()
