"""The virtual device and what drives it: how long a step takes, what it samples, and when requests arrive."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import pytest

from sgframe.errors import ConfigError
from sgframe.messages import NewRow, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe_simulator.arrivals import ClosedLoop, OpenLoop
from sgframe_simulator.costs import Costs, read_costs
from sgframe_simulator.device import VirtualDevice
from sgframe_simulator.trace import Trace

COSTS = Costs(step=1.0, prefill_token=0.5, decode_token=0.25, context_token=0.125)


@pytest.fixture
def device() -> VirtualDevice:
    """Request 0 samples token 2, request 1 token 3."""
    return VirtualDevice(max_running=4, first_token=2)


def batch(
    rows: Sequence[tuple[int, int]], admitted: Sequence[int] = (), cached: int = 0, samples: bool = True
) -> ScheduleBatch:
    """``rows`` of (row, count). Request i is admitted to row i."""
    prompt = ints([0] * 4)
    new = [NewRow(request, prompt, 4, ints(range(cached)), TokenSampling(seed=request)) for request in admitted]
    counts = ints(count for _, count in rows)
    slots = ints(range(sum(counts)))
    return ScheduleBatch(0, ints(), new, [], ints(row for row, _ in rows), counts, slots, ints([samples] * len(rows)))


def test_work_is_told_apart_by_chunks_rows_and_what_rows_read(device: VirtualDevice) -> None:
    work = device.execute(batch([(0, 4)], admitted=[0]))
    assert (work.prefilled, work.decoding, work.context) == (4, 0, 0)
    work = device.execute(batch([(0, 1), (1, 3)], admitted=[1], cached=1))
    assert (work.prefilled, work.decoding, work.context) == (3, 1, 5)


def test_each_row_samples_the_token_of_its_request(device: VirtualDevice) -> None:
    output = device.execute(batch([(1, 4), (0, 4)], admitted=[0, 1])).output
    assert (output.rows.tolist(), output.tokens.tolist()) == ([1, 0], [3, 2])


def test_a_chunk_that_does_not_end_its_prompt_samples_nothing(device: VirtualDevice) -> None:
    output = device.execute(batch([(0, 3)], admitted=[0], samples=False)).output
    assert output.rows.tolist() == output.tokens.tolist() == []


def test_a_row_reads_the_tokens_of_steps_that_were_skipped(device: VirtualDevice) -> None:
    first = batch([(0, 4), (1, 4)], admitted=[0, 1])
    device.execute(first)
    device.skip(first, 10)
    assert device.execute(batch([(0, 1), (1, 1)])).context == 2 * 15


def test_a_step_costs_by_its_work(device: VirtualDevice) -> None:
    device.execute(batch([(0, 4)], admitted=[0]))
    work = device.execute(batch([(0, 1), (1, 3)], admitted=[1], cached=1))
    assert COSTS.seconds(work) == 1 + 3 * 0.5 + 0.25 + 5 * 0.125


def test_steps_in_one_go_cost_as_much_as_one_by_one(device: VirtualDevice) -> None:
    rows = batch([(0, 1), (1, 1)])
    device.execute(batch([(0, 4), (1, 4)], admitted=[0, 1]))
    works = [device.execute(rows) for _ in range(3)]
    assert COSTS.seconds(works[0], steps=3) == sum(map(COSTS.seconds, works))


# -------------------------------------------------------------------------------------------------- arrivals


def test_in_an_open_loop_requests_come_by_their_timestamps(trace_of: Callable[..., Trace]) -> None:
    arrivals = OpenLoop(trace_of((0, 4, 3, [1]), (2000, 4, 9, [2])), rate=2.0)
    assert list(arrivals.due(0.5)) == [(0, 0.0)]
    assert arrivals.next_time == 1.0
    assert list(arrivals.due(1.5)) == [(1, 1.0)]
    assert arrivals.next_time == inf


def test_in_an_open_loop_a_file_that_is_out_of_order_is_put_in_order(trace_of: Callable[..., Trace]) -> None:
    arrivals = OpenLoop(trace_of((9000, 4, 1, [1]), (5000, 4, 1, [2])), rate=1.0)
    assert list(arrivals.due(100.0)) == [(0, 0.0), (1, 4.0)]


def test_in_a_closed_loop_the_next_comes_when_one_ends(trace_of: Callable[..., Trace]) -> None:
    arrivals = ClosedLoop(trace_of(*[(0, 4, 1, [name]) for name in range(3)]), users=2)
    assert list(arrivals.due(0.0)) == [(0, 0.0), (1, 0.0)]
    assert list(arrivals.due(1.0)) == []
    arrivals.ended()
    assert list(arrivals.due(7.0)) == [(2, 7.0)]
    assert arrivals.next_time == inf


# -------------------------------------------------------------------------------------------------- profiles


def test_a_profile_says_what_differs_from_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    file.write_text("step = 0.02\nprefill_token = 1e-3\n")
    assert read_costs(file) == Costs(step=0.02, prefill_token=0.001)
    assert read_costs(None) == Costs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stop = 0.02", "stop: unknown setting; did you mean 'step'?"),
        ("step = -1.0", "step: should be greater than 0, found -1.0"),
        ("step = inf", "step: should be a finite number, found inf"),
        ("step = 1e308", "step: should be less than or equal to 3600, found 1e+308"),
        ("context_token = 1e308", "context_token: should be less than or equal to 3600, found 1e+308"),
        ('decode_token = "fast"', "decode_token: should be a valid number, found 'fast'"),
    ],
)
def test_a_profile_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "machine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"{file}: {message}")):
        read_costs(file)
