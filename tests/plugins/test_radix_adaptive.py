"""The adaptive strategy: what it learns of returns, and whom it keeps for that."""

from __future__ import annotations

import pytest

from sgframe.clock import StepClock
from sgframe.messages import Ints, ints
from sgframe_radix import RadixSettings
from sgframe_radix.cache import RadixCache
from sgframe_radix.eviction import adaptive
from sgframe_radix.eviction.guard import Guard
from sgframe_radix.eviction.returns import BINS, EDGES, ReturnModel, age_bin

CHAT, ONCE = (0, 1, 1), (0, 0, 0)


class Service:
    """A cache of 400 tokens that serves prompts one by one, as a scheduler would."""

    def __init__(self, eviction: str = "adaptive", slots: int = 400) -> None:
        self.clock = StepClock()
        self.cache = RadixCache(RadixSettings(eviction=eviction), page_size=1, clock=self.clock)
        self.free = ints(range(slots))

    def serve(self, tokens: Ints, at: float) -> int:
        """How many of ``tokens`` were found."""
        self.clock.now = at
        lease = self.cache.match_prefix(tokens)
        found = len(lease)
        lacking = len(tokens) - found
        if lacking > len(self.free):
            self.free += self.cache.evict(lacking - len(self.free))
        own, self.free = self.free[:lacking], self.free[lacking:]
        self.free += self.cache.insert(lease, tokens, lease.slots + own).duplicates
        self.cache.release(lease)
        self.cache.check()
        return found


def chat(user: int, turns: int) -> Ints:
    """The prompt of a chat's turn, 20 tokens longer each time."""
    return ints(range(1000 * user, 1000 * user + 20 * turns))


def one_off(number: int) -> Ints:
    return ints(range(500_000 + 100 * number, 500_000 + 100 * number + 60))


def found(eviction: str) -> int:
    """Four chats whose turns come every 40 s, among prompts that come once; tokens found in the second half of an hour."""
    service, total, number = Service(eviction), 0, 0
    for second in range(0, 3600, 2):
        if second % 10 == 0:
            user = second // 10 % 4
            turn = second // 40
            hits = service.serve(chat(4 * (turn // 5) + user + 1, 1 + turn % 5), second)
        else:
            hits = service.serve(one_off(number), second)
            number += 1
        total += hits * (second >= 1800)
    return total


def test_chats_that_come_back_are_kept_among_prompts_that_do_not() -> None:
    assert found("lru") == 0
    assert found("adaptive") > 1000


def test_the_same_traffic_brings_the_same_hits() -> None:
    assert found("adaptive") == found("adaptive")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ReturnModel:
    """The model that the strategy learns with."""
    model = ReturnModel()
    monkeypatch.setattr(adaptive, "ReturnModel", lambda: model)
    return model


def test_what_was_evicted_still_counts_as_the_turn_before(model: ReturnModel) -> None:
    service = Service(slots=60)
    for turn in range(1, 4):
        service.serve(chat(1, turn), 40 * turn)
        service.serve(one_off(turn), 40 * turn + 20)  # flushes the chat
    assert sum(model._returned[-1, -1, -1]) == pytest.approx(2, rel=0.01)


def test_the_end_that_a_session_left_behind_goes_first() -> None:
    service = Service(slots=100)
    first = ints([*range(40), 90, 91])
    service.serve(first, 0)
    service.serve(ints([*range(40), *range(50, 70)]), 30)  # goes on, but not from the last two tokens
    service.cache.evict(2)
    assert service.cache.peek(first).matched == 40
    assert service.cache.peek(ints([*range(40), *range(50, 70)])).matched == 60


def test_a_prompt_that_shares_less_than_half_is_no_next_turn(model: ReturnModel) -> None:
    service = Service()
    service.serve(ints(range(40)), 0)
    service.serve(ints([*range(15), *range(200, 230)]), 10)
    assert (-1, -1, -1) not in model._returned


def visits(model: ReturnModel, count: int, back_after: float | None) -> None:
    """``count`` visits of CHAT, a minute apart, each of which ends ``back_after`` seconds later, or never."""
    for number in range(count):
        visit = model.start(CHAT, 1000.0 * number)
        if back_after is not None:
            model.came_back(visit, 1000.0 * number + back_after)
    model.start(ONCE, 1000.0 * count + 5000)
    model.refresh()


def test_a_path_is_worth_most_just_before_it_is_expected() -> None:
    model = ReturnModel()
    visits(model, 200, back_after=60)
    values = model.values(CHAT)
    assert values.index(max(values)) == age_bin(60)
    assert values[age_bin(1)] < values[age_bin(30)] < values[age_bin(60)]
    assert values[age_bin(200)] < values[age_bin(1)]


def test_a_path_that_never_comes_back_is_worth_nothing() -> None:
    model = ReturnModel()
    visits(model, 200, back_after=None)
    assert model.values(CHAT) == [0.0] * BINS


def test_a_kind_that_is_new_is_worth_what_all_are() -> None:
    model = ReturnModel()
    visits(model, 200, back_after=60)
    values = model.values((1, 3, 2))
    assert values.index(max(values)) == age_bin(60)


def test_what_was_learned_fades() -> None:
    model = ReturnModel()
    visits(model, 300, back_after=60)
    before = max(model.values(CHAT))
    for number in range(20_000):
        model.start(CHAT, 400_000 + 10.0 * number)
    model.refresh()
    assert max(model.values(CHAT)) < before / 20


def test_a_return_is_counted_once() -> None:
    model = ReturnModel()
    visit = model.start(CHAT, 0)
    model.came_back(visit, 10)
    model.came_back(visit, 20)
    assert sum(model._returned[CHAT]) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(("age", "bin"), [(0, 0), (0.99, 0), (1, 1), (1.42, 2), (2, 3), (1e9, BINS - 1)])
def test_ages_fall_into_bins_of_growing_width(age: float, bin: int) -> None:
    assert age_bin(age) == bin
    assert EDGES[bin] <= age


def test_ages_that_rounding_puts_short_of_an_edge_move_on_all_the_same() -> None:
    service = Service(slots=4000)
    start = 0.1
    for number in range(200):
        start += 0.1
        service.serve(one_off(number % 60), start)
    for edge in EDGES:
        service.clock.now = max(service.clock.now, 0.3 + edge)
        service.cache.evict(1)
    service.cache.check()


def test_what_is_gone_is_not_kept_in_mind() -> None:
    service = Service(slots=60_000)
    for number in range(1000):
        service.serve(one_off(number), 0)
    service.clock.now = EDGES[-2]
    service.cache.evict(1)  # they all age, and would be looked at again in more than a day
    service.free += service.cache.evict(60_000)
    service.serve(one_off(0), service.clock.now)
    assert len(service.cache._strategy._strategy._ageing) <= 100  # type: ignore[attr-defined]


def test_a_leaf_may_be_let_go_twice_at_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "_replace", lambda guard, fault, error=None: pytest.fail(fault))
    service = Service(slots=4000)
    for _ in range(5):
        for number in range(20):
            service.serve(one_off(number), 10)
    service.clock.now = 1000
    service.cache.evict(600)
    service.cache.check()
