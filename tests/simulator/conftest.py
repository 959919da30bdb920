"""Traces for the simulator's tests: tiny ones written out, and the recorded ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sgframe_simulator.parts import Shelf
from sgframe_simulator.simulation import Setup
from sgframe_simulator.trace import Trace
from sgframe_simulator.trace_files import load_trace

RECORDED = Path(__file__).parents[1] / "data" / "traces"

Row = tuple[float, int, int, Sequence[int]]
"""Timestamp, prompt tokens, output tokens, block ids."""


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[[Sequence[Row]], Path]:
    """Writes a trace in Mooncake's format."""

    def write(rows: Sequence[Row]) -> Path:
        names = ("timestamp", "input_length", "output_length", "hash_ids")
        file = tmp_path / "trace.jsonl"
        file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
        return file

    return write


@pytest.fixture
def trace_of(trace_file: Callable[[Sequence[Row]], Path]) -> Callable[..., Trace]:
    """A trace of these rows, in blocks of 4 tokens."""
    return lambda *rows: load_trace(trace_file(rows), 4)


@pytest.fixture
def setup_of() -> Callable[..., Setup]:
    """A setup with these parts, one request at a time unless said otherwise."""

    def make(policy: str = "fcfs", cache: str = "radix", eviction: str = "lru", **options: object) -> Setup:
        (pair,) = Shelf().pairs([policy], [cache], [eviction] if cache == "radix" else [])
        return Setup(*pair, **{"slots": 100, "users": 1} | options)

    return make


@pytest.fixture(scope="session")
def conversation() -> Trace:
    return load_trace(RECORDED / "mooncake_conversation.jsonl.xz")


@pytest.fixture(scope="session")
def agents() -> Trace:
    return load_trace(RECORDED / "agent_sessions_small.jsonl.xz")
