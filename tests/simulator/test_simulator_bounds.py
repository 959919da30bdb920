"""The bounds: what an infinite cache and Belady's find of a trace, in percent of its prompt tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sgframe_simulator.bounds import belady_hit_rate, infinite_hit_rate
from sgframe_simulator.trace import Trace

SIZES = (128_000, 256_000, 512_000, 1_024_000, 2_048_000, 4_096_000, 16_384_000)
BELADY = {
    "conversation": dict(zip(SIZES, (10.15, 13.94, 19.44, 26.00, 32.87, 37.31, 37.36), strict=True)),
    "agents": dict(zip(SIZES, (45.61, 66.53, 88.40, 91.66), strict=False)),
}
"""By tokens; computed apart from this code, with the traces' own block sizes."""


def test_an_infinite_cache_finds_what_came_before(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 8, 1, [1, 2]), (0, 8, 1, [1, 3]), (0, 6, 1, [1, 3]))
    assert infinite_hit_rate(trace) == pytest.approx(100 * (0 + 4 + 6) / 22)


def test_belady_keeps_what_is_wanted_soonest(trace_of: Callable[..., Trace]) -> None:
    """Room for one block: 1 comes again before 2 does, so 2 is not kept."""
    trace = trace_of((0, 4, 1, [1]), (0, 4, 1, [2]), (0, 4, 1, [1]), (0, 4, 1, [2]))
    assert belady_hit_rate(trace, 4) == 25
    assert belady_hit_rate(trace, 8) == 50


def test_belady_keeps_the_beginning_of_a_path(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 12, 1, [1, 2, 3]), (0, 12, 1, [1, 2, 3]))
    assert belady_hit_rate(trace, 8) == pytest.approx(100 * 8 / 24)


def test_the_first_block_that_is_missing_ends_the_match(trace_of: Callable[..., Trace]) -> None:
    trace = trace_of((0, 8, 1, [1, 2]), (0, 12, 1, [1, 3, 4]))
    assert infinite_hit_rate(trace) == 20
    assert belady_hit_rate(trace, 100) == 20


@pytest.mark.parametrize(("name", "rate"), [("conversation", 37.36), ("agents", 91.66)])
def test_the_infinite_hit_rate_of_the_recorded_traces(name: str, rate: float, request: pytest.FixtureRequest) -> None:
    assert infinite_hit_rate(request.getfixturevalue(name)) == pytest.approx(rate, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "slots", "rate"), [(name, slots, rate) for name, rates in BELADY.items() for slots, rate in rates.items()]
)
def test_the_belady_hit_rate_of_the_recorded_traces(
    name: str, slots: int, rate: float, request: pytest.FixtureRequest
) -> None:
    assert belady_hit_rate(request.getfixturevalue(name), slots) == pytest.approx(rate, abs=0.005)
