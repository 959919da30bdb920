"""A team runs launches at once, or records them: then they run for any number of tokens, in the same memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from sgframe_cpu.atomics import integer
from sgframe_cpu.launch import Kernel, Launch, Walk, buffer
from sgframe_cpu.linear import PackedLinear
from sgframe_cpu.team import Team, Unrecordable


def _double(address, begin, end):
    values = buffer(address, 0, (end,), np.float32)
    for item in range(begin, end):
        values[item] = 2 * values[item]


def _count(address, begin, end):
    counts = buffer(address, 0, (integer(address, 1),), np.int64)
    for item in range(begin, end):
        counts[item] += 1


double, count = Kernel(_double), Kernel(_count)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("items", [0, 1, 7, 1000])
@pytest.mark.parametrize("grain", [1, 3, 2000])
def test_every_item_is_run_once(threads, items, grain):
    counts, cell = np.zeros(max(items, 1), np.int64), np.array([items], np.int64)
    Walk([Launch(count, (counts.ctypes.data, len(counts)), cell.ctypes.data, grain=grain)], threads)()
    assert counts[:items].tolist() == [1] * items


def _note(address, begin, end):
    begins = buffer(address, 0, (end,), np.int64)
    for item in range(begin, end):
        begins[item] = begin


note = Kernel(_note)


def test_a_claim_does_not_reach_into_the_part_of_another_thread():
    begins, cell = np.zeros(10, np.int64), np.array([10], np.int64)
    Walk([Launch(note, (begins.ctypes.data,), cell.ctypes.data, grain=4)], threads=2)()
    assert begins.tolist() == [0, 0, 0, 0, 4, 5, 5, 5, 5, 9]  # parts of 5 items, claimed by 4


def test_items_follow_from_the_cell_when_a_walk_begins():
    counts, cell = np.zeros(12, np.int64), np.array([0], np.int64)
    walk = Walk([Launch(count, (counts.ctypes.data, 12), cell.ctypes.data, unit=4, times=3)], threads=2)
    cell[0] = 5  # two units of 4, three times
    walk()
    cell[0] = 0
    walk()
    assert counts.tolist() == [1] * 6 + [0] * 6


def test_a_launch_begins_when_the_one_before_is_done():
    values, cell = np.ones(4096, np.float32), np.array([4096], np.int64)
    Walk([Launch(double, (values.ctypes.data,), cell.ctypes.data, grain=16)] * 20, threads=3)()
    assert (values == 2.0**20).all()


def test_callers_take_turns():
    def wrong_runs(_):
        counts, cell = np.zeros(4000, np.int64), np.array([4000], np.int64)
        launch, wrong = Launch(count, (counts.ctypes.data, 4000), cell.ctypes.data), 0
        for run in range(1, 1001):
            launch.run(2)
            wrong += (counts != run).any()
        return wrong

    with ThreadPoolExecutor(2) as callers:
        assert list(callers.map(wrong_runs, range(2))) == [0, 0]


def test_nothing_runs_while_a_team_records():
    team, values = Team(2), torch.ones(4)
    with team.record(4) as recording:
        team.run(double, 4, values.data_ptr())
    assert values.tolist() == [1, 1, 1, 1]
    recording(3)
    assert values.tolist() == [2, 2, 2, 1]


def test_a_recording_runs_for_any_number_of_tokens():
    torch.manual_seed(0)
    team = Team(2)
    first, second = (PackedLinear(torch.randn(24, 24), None, team) for _ in range(2))
    fixed = torch.zeros(40, 24)
    with team.record(40) as recording:
        result = second(first(fixed))
    for tokens in (40, 1, 17):
        x = torch.randn(tokens, 24)
        fixed[:tokens] = x
        recording(tokens)
        torch.testing.assert_close(result[:tokens], second(first(x)), atol=0, rtol=0)


def test_memory_that_recorded_code_drops_is_given_out_again():
    team = Team(1)
    with team.record(8):
        kept = team.empty(8, 4, like=torch.empty(0))
        address = team.empty(8, 4, like=torch.empty(0)).data_ptr()  # dropped at once
        view = team.empty(8, 4, like=torch.empty(0)).view(32)[2:]
        again = team.empty(8, 4, like=torch.empty(0))
    assert view.data_ptr() - 8 == address
    assert len({kept.data_ptr(), view.data_ptr() - 8, again.data_ptr()}) == 3


def test_what_depends_on_more_than_the_tokens_cannot_be_recorded():
    team = Team(1)
    with team.record(8), pytest.raises(Unrecordable, match="5 items in a recording for 8 tokens"):
        team.run(double, 5, 0)


def test_a_team_that_failed_to_record_runs_things_at_once_again():
    team, values = Team(1), torch.ones(2)
    with pytest.raises(RuntimeError), team.record(2):
        raise RuntimeError
    team.run(double, 2, values.data_ptr())
    assert values.tolist() == [2, 2]
