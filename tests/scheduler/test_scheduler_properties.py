"""Invariant 1 at every step, and the right tokens at the end, under random arrivals, aborts, flushes and small memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_bench import Bench, NoReserve, expected_output

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.scheduler.estimator import PeakEstimator, RatioEstimator
from sgframe_basic.cache import NoCache

PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12) | st.lists(
    st.sampled_from([0]), min_size=17, max_size=20
)
ARRIVALS = st.lists(st.tuples(st.integers(0, 4), PROMPTS, st.integers(0, 8), st.booleans()), min_size=1, max_size=14)


@settings(max_examples=300, deadline=None)
@given(
    arrivals=ARRIVALS,
    slots=st.integers(28, 56),
    max_running=st.integers(1, 5),
    max_step_tokens=st.integers(5, 16),
    aborts=st.dictionaries(st.integers(1, 14), st.integers(0, 12), max_size=4),
    flush_every=st.integers(2, 30),
    cached=st.booleans(),
    estimator=st.sampled_from([NoReserve, RatioEstimator, PeakEstimator]),
    page_size=st.sampled_from([1, 2, 4]),
    overlap=st.booleans(),
    stop_ids=st.lists(st.integers(0, 49), max_size=8),
)
def test_every_slot_has_one_owner_and_every_text_is_right(
    arrivals, slots, max_running, max_step_tokens, aborts, flush_every, cached, estimator, page_size, overlap, stop_ids
) -> None:
    bench = Bench(
        slots,
        max_running,
        max_step_tokens,
        cache=None if cached else NoCache(PluginSettings(), page_size=page_size, clock=StepClock()),
        estimator=estimator(page_size),
        page_size=page_size,
        overlap=overlap,
    )
    salt = (("salt", "x"),)
    for id, (pause, prompt, max_tokens, salted) in enumerate(arrivals, 1):
        bench.add(id, prompt, max_tokens=max_tokens, stop_ids=stop_ids, namespace=salt if salted else ())
        for _ in range(pause):
            _step(bench, aborts, flush_every)
    for _ in range(2000):
        if _step(bench, aborts, flush_every) is None and bench.scheduler.idle:
            break
    assert bench.scheduler.idle
    for id, request in bench.prompts.items():
        whole = expected_output(request.tokens, request.max_tokens, stop_ids)
        if bench.finished[id].reason in ("length", "stop"):
            assert bench.outputs[id] == whole
        else:
            assert bench.outputs[id] == whole[: len(bench.outputs[id])]
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == slots // page_size * page_size


def _step(bench: Bench, aborts: dict[int, int], flush_every: int) -> object:
    steps = bench.scheduler.counters.steps
    for id, when in aborts.items():
        if when == steps:
            bench.scheduler.abort(id, "test")
    if steps % flush_every == 0:
        bench.scheduler.flush()
    return bench.step()
