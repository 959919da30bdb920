"""The recorded traces at block level: the figures of LRU, computed apart from this code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sgframe_simulator.simulation import Setup, simulate

SIZES = (128_000, 256_000, 512_000, 1_024_000, 2_048_000, 4_096_000, 16_384_000)
LRU = {
    "conversation": dict(zip(SIZES, (4.28, 4.30, 4.54, 5.54, 8.82, 18.15, 33.85), strict=True)),
    "agents": dict(zip(SIZES, (12.67, 35.69, 71.26, 91.66), strict=False)),
}
QUICK = ("agents", 256_000)
CASES = [(name, slots, rate) for name, rates in LRU.items() for slots, rate in rates.items()]


@pytest.mark.parametrize(
    ("name", "slots", "rate"),
    [pytest.param(*case, marks=() if case[:2] == QUICK else pytest.mark.slow) for case in CASES],
)
def test_lru_finds_what_was_computed_apart(
    name: str, slots: int, rate: float, setup_of: Callable[..., Setup], request: pytest.FixtureRequest
) -> None:
    trace = request.getfixturevalue(name)
    assert simulate(trace, setup_of(slots=slots, block_level=True)).hit_rate == pytest.approx(rate, abs=0.05)
