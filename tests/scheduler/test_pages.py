"""Pages: slots come in whole pages, whole pages are shared, and no text depends on their size."""

from __future__ import annotations

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.assembly.providers import PluginSettings
from sgframe.clock import StepClock
from sgframe.messages import Ints, ints
from sgframe.scheduler.slots import SlotPool
from sgframe_basic.cache import NoCache


@pytest.mark.parametrize("overlap", [False, True], ids=["plain", "overlap"])
@pytest.mark.parametrize("cached", [True, False], ids=["radix", "none"])
@pytest.mark.parametrize("page_size", [1, 2, 16, 128])
def test_texts_are_equal_at_every_page_size(page_size: int, cached: bool, overlap: bool) -> None:
    cache = None if cached else NoCache(PluginSettings(), page_size=page_size, clock=StepClock())
    bench = Bench(4096, 8, 64, cache, page_size=page_size, overlap=overlap)
    lengths = [k * page_size + off for k in (1, 2) for off in (-1, 0, 1) if k * page_size + off > 0]
    prompts = {id: [id % 2] + [7] * (length - 1) for id, length in enumerate(lengths * 2, 1)}
    for id, prompt in prompts.items():
        bench.add(id, prompt, max_tokens=6)
    bench.run()
    assert bench.outputs == {id: expected_output(prompt, 6) for id, prompt in prompts.items()}
    bench.scheduler.flush()
    assert bench.scheduler.memory.pool.free == 4096


@pytest.mark.parametrize("page_size", [1, 2, 16, 128])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_prompt_sent_twice_is_found_in_whole_pages_but_for_its_last_token(page_size: int, off: int) -> None:
    prompt = [1] * (3 * page_size + off)
    bench = Bench(1024, page_size=page_size, max_step_tokens=512)
    for id in (1, 2):
        bench.add(id, prompt, max_tokens=1)
        bench.run()
    assert bench.taken[-1].cached_tokens == (len(prompt) - 1) // page_size * page_size
    assert bench.outputs[1] == bench.outputs[2]


def test_a_row_takes_a_page_at_a_time() -> None:
    bench = Bench(64, page_size=16, max_step_tokens=64)
    bench.add(1, [1] * 15, max_tokens=4)
    free = []
    for _ in range(3):
        bench.step()
        free.append(bench.scheduler.memory.pool.free)
    assert free == [48, 48, 32]


def test_a_pool_leaves_out_an_incomplete_page() -> None:
    assert SlotPool(70, 16).size == 64


def test_a_pool_hands_out_consecutive_slots_of_whole_pages() -> None:
    pool = SlotPool(12, 4)
    assert list(taken(pool, 8)) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert pool.free == 4


def test_a_torn_page_cannot_be_given_back() -> None:
    pool = SlotPool(12, 4)
    slots = taken(pool, 8)
    with pytest.raises(ValueError, match="6 slots from 2 on are not whole pages of 4"):
        pool.give_back(slots[2:])
    assert pool.free == 4


def test_a_page_cannot_be_given_back_twice() -> None:
    pool = SlotPool(12, 4)
    slots = taken(pool, 4)
    pool.give_back(slots)
    with pytest.raises(ValueError, match=r"slots \[0\] were freed twice"):
        pool.give_back(slots)


def taken(pool: SlotPool, count: int) -> Ints:
    """What a new row is given."""
    own = ints()
    pool.extend(own, count)
    return own
