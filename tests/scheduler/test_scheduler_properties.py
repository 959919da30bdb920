"""Invariant 1 at every step, and the right tokens at the end, under random arrivals, aborts, flushes and small memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_bench import Bench, expected_output

from sgframe.assembly.providers import PluginSettings
from sgframe_basic.cache import NoCache
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache

PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12)
ARRIVALS = st.lists(st.tuples(st.integers(0, 4), PROMPTS, st.integers(0, 8), st.booleans()), min_size=1, max_size=14)


@settings(max_examples=150, deadline=None)
@given(
    arrivals=ARRIVALS,
    slots=st.integers(20, 48),
    max_running=st.integers(1, 5),
    max_step_tokens=st.integers(5, 16),
    aborts=st.dictionaries(st.integers(1, 14), st.integers(0, 12), max_size=4),
    flush_every=st.integers(2, 30),
    cached=st.booleans(),
    headroom=st.integers(0, 8),
)
def test_every_slot_has_one_owner_and_every_text_is_right(
    arrivals, slots, max_running, max_step_tokens, aborts, flush_every, cached, headroom
) -> None:
    cache = RadixCache(RadixSettings(), page_size=1) if cached else NoCache(PluginSettings(), page_size=1)
    bench = Bench(slots, max_running, max_step_tokens, cache=cache, headroom=headroom)
    salt = (("salt", "x"),)
    for id, (pause, prompt, max_tokens, salted) in enumerate(arrivals, 1):
        bench.add(id, prompt, max_tokens=max_tokens, namespace=salt if salted else ())
        for _ in range(pause):
            _step(bench, aborts, flush_every)
    for _ in range(2000):
        if _step(bench, aborts, flush_every) is None and bench.scheduler.idle:
            break
    assert bench.scheduler.idle
    for id, request in bench.prompts.items():
        whole = expected_output(request.tokens, request.max_tokens)
        if bench.finished[id].reason == "length":
            assert bench.outputs[id] == whole
        else:
            assert bench.outputs[id] == whole[: len(bench.outputs[id])]
    bench.scheduler.flush()
    assert bench.scheduler.pool.free == slots


def _step(bench: Bench, aborts: dict[int, int], flush_every: int) -> object:
    steps = bench.scheduler.counters.steps
    for id, when in aborts.items():
        if when == steps:
            bench.scheduler.abort(id, "test")
    if steps % flush_every == 0:
        bench.scheduler.flush()
    return bench.step()
