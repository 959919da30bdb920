"""On recorded agent sessions the replicas behind the router find nearly as much cached as one big cache would."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from sgframe_simulator.parts import Shelf
from sgframe_simulator.trace_files import load_trace

HOUSE = Path(__file__).parents[2]
AGENTS = HOUSE / "tests" / "data" / "traces" / "agent_sessions_small.jsonl.xz"


@cache
def benchmark() -> ModuleType:
    """``benchmarks/router.py``."""
    spec = importlib.util.spec_from_file_location("benchmarks_router", HOUSE / "benchmarks" / "router.py")
    assert spec and spec.loader
    module = sys.modules["benchmarks_router"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requests", "slots", "replicas"),
    [
        (200, 1_024_000, 4),
        pytest.param(1121, 512_000, 2, marks=pytest.mark.slow),
        pytest.param(1121, 512_000, 4, marks=pytest.mark.slow),
        pytest.param(1121, 1_024_000, 4, marks=pytest.mark.slow),
    ],
)
def test_the_hit_rate_is_within_5_percent_of_one_big_cache(requests: int, slots: int, replicas: int) -> None:
    trace = load_trace(AGENTS).first(requests)
    (parts,) = Shelf().pairs(["fcfs"], ["radix"])
    one, routed, turns = (
        benchmark().replay(trace, parts, slots, count, way).hit_rate
        for count, way in ((1, "one big cache"), (replicas, "router"), (replicas, "round robin"))
    )
    print(f"\nhit rate in percent: one big cache {one:.2f}, router {routed:.2f}, round robin {turns:.2f}")
    assert routed > 0.95 * one
    assert turns < 0.8 * one
