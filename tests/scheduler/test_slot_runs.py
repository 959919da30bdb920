"""Runs: each row's slots lie next to each other, whoever else takes slots meanwhile."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_bench import Bench

from sgframe.messages import Ints, ints
from sgframe.scheduler.runs import FreeRuns
from sgframe.scheduler.slots import SlotPool

LARGE = 64 * 1024
"""Slots of a pool that reserves 15 behind each row."""


def taken(pool: SlotPool, count: int) -> Ints:
    """What a new row is given."""
    own = ints()
    pool.extend(own, count)
    return own


def runs(slots: Ints) -> int:
    """How many runs of consecutive slots ``slots`` are."""
    return 1 + sum(b != a + 1 for a, b in pairwise(slots))


def test_rows_that_take_turns_get_slots_in_runs_of_sixteen() -> None:
    pool = SlotPool(LARGE)
    rows = [taken(pool, 1) for _ in range(4)]
    for _ in range(63):
        for own in rows:
            pool.extend(own, 1)
    assert [runs(own) for own in rows] == [4, 4, 4, 4]


def test_a_row_goes_on_behind_its_prompt() -> None:
    pool = SlotPool(LARGE)
    first, _ = taken(pool, 100), taken(pool, 100)
    pool.extend(first, 1)
    assert list(first) == list(range(101))


def test_a_prompt_in_chunks_is_one_run_where_nobody_came_between() -> None:
    pool = SlotPool(LARGE)
    own = taken(pool, 512)
    pool.extend(own, 512)
    assert list(own) == list(range(1024))


def test_what_is_reserved_is_free() -> None:
    pool = SlotPool(LARGE)
    taken(pool, 100)
    assert (pool.free, pool.loose) == (LARGE - 100, LARGE - 115)


def test_what_is_reserved_is_loose_when_the_row_leaves() -> None:
    pool = SlotPool(LARGE)
    own = taken(pool, 100)
    pool.leave(own)
    assert pool.loose == pool.free


def test_what_is_reserved_is_given_to_others_when_slots_are_short() -> None:
    pool = SlotPool(LARGE)
    own = taken(pool, 100)
    assert len(taken(pool, LARGE - 100)) == LARGE - 100
    assert pool.free == 0
    with pytest.raises(ValueError, match="1 slots asked, 0 free"):
        pool.extend(own, 1)
    assert len(own) == 100


def test_at_most_a_sixteenth_of_the_pool_and_a_run_is_reserved() -> None:
    pool = SlotPool(LARGE)
    for _ in range(1000):
        taken(pool, 1)
    assert pool.free - pool.loose <= LARGE // 16 + 15


def test_a_small_pool_reserves_nothing() -> None:
    pool = SlotPool(1024)
    taken(pool, 1)
    assert pool.free == pool.loose == 1023


def test_of_what_is_free_the_shortest_run_that_fits_is_taken() -> None:
    free = FreeRuns(1000)
    free.take(1000, at=0)
    for start, end in ((0, 300), (400, 420), (500, 510)):
        free.add(start, end)
    assert free.take(12, at=-1) == (400, 412)


def test_where_no_run_is_long_enough_the_longest_is_taken_first() -> None:
    free = FreeRuns(100)
    free.take(100, at=0)
    for start, end in ((0, 3), (10, 30), (40, 44)):
        free.add(start, end)
    assert free.take(27, at=-1) == (10, 30)


def test_what_is_freed_between_two_runs_makes_them_one() -> None:
    free = FreeRuns(30)
    free.take(30, at=0)
    for start in (0, 20, 10):
        free.add(start, start + 10)
    assert list(free) == [(0, 30)]


def test_rows_of_a_service_go_on_in_runs_and_nothing_stays_reserved() -> None:
    bench = Bench(LARGE, max_running=8, max_step_tokens=64, overlap=True)
    for id in range(8):
        bench.add(id, [id] * 20, max_tokens=50)
    for _ in range(40):
        bench.step()
    assert [runs(request.slots) for request in bench.scheduler.running] == [3] * 8  # 20 + 15, then 16 each
    bench.run()
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.loose == LARGE


@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([(4096, 1), (LARGE, 1), (LARGE, 4), (70, 16), (40, 1)]))
def test_every_slot_is_free_or_in_one_row(data: st.DataObject, shape: tuple[int, int]) -> None:
    slots, page = shape
    pool = SlotPool(slots, page)
    rows: list[Ints] = []
    for _ in range(data.draw(st.integers(1, 30))):
        match data.draw(st.sampled_from(["new", "one", "one", "chunk", "end", "cut"])):
            case "new":
                rows.append(ints())
            case "one" | "chunk" as growth if rows:
                count = page * (1 if growth == "one" else data.draw(st.integers(1, 2 + pool.size // page // 3)))
                if count <= pool.free:
                    pool.extend(data.draw(st.sampled_from(rows)), count)
            case "end" if rows:
                own = rows.pop(data.draw(st.integers(0, len(rows) - 1)))
                pool.leave(own)
                pool.give_back(own)
            case "cut" if rows:
                own = data.draw(st.sampled_from(rows))
                keep = data.draw(st.integers(0, len(own) // page)) * page
                pool.leave(own)
                pool.give_back(own[keep:])
                del own[keep:]
        pool.check()
        held = [slot for own in rows for slot in own]
        assert len(set(held)) == len(held) == pool.size - pool.free
        assert all(0 <= slot < pool.size for slot in held)
