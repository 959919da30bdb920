"""Admission: order, ageing, who gives way, and policies that are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scheduler_bench import Bench, expected_output

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Running, Waiting


class NewestFirst(Policy):
    """Unfair on purpose; remembers how far each request was overtaken when it was last asked."""

    def __init__(self) -> None:
        self.overtaken: dict[int, int] = {}

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        self.overtaken = {request.id: request.overtaken for request in waiting}
        return waiting[::-1]


class Urgent(Policy):
    """Higher priority first; displaces any lower one."""

    honours_priority = True

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return sorted(waiting, key=lambda request: -request.priority)

    def victim(self, waiting: Waiting, running: Sequence[Running]) -> Running | None:
        lowest = min(reversed(running), key=lambda request: request.priority)
        return lowest if lowest.priority < waiting.priority else None


def test_requests_are_taken_in_the_policys_order() -> None:
    bench = Bench(policy=NewestFirst(), max_running=1)
    for id in (1, 2, 3):
        bench.add(id, [id], max_tokens=1)
    bench.run()
    assert [output.id for output in bench.taken] == [3, 2, 1]


def test_overtaken_counts_every_token_that_later_arrivals_were_given() -> None:
    policy = NewestFirst()
    bench = Bench(policy=policy, max_running=1)
    for id in (1, 2, 3):
        bench.add(id, [id] * id, max_tokens=4)
    seen = []
    while bench.step():
        seen.append(dict(policy.overtaken))
    assert seen[0] == {1: 0, 2: 0, 3: 0}
    assert {1: 6, 2: 6} in seen  # request 3: three tokens of prompt and three of output (the last is not computed)
    assert {1: 6 + 5} in seen  # and request 2


def test_who_came_earlier_overtakes_nobody() -> None:
    policy = NewestFirst()
    bench = Bench(policy=policy, max_running=1)
    bench.add(1, [1] * 5, max_tokens=4)
    bench.step()
    bench.add(2, [2], max_tokens=4)
    bench.add(3, [3], max_tokens=4)
    for _ in range(4):
        bench.step()
    assert policy.overtaken == {2: 0, 3: 0}


def test_nobody_is_overtaken_for_size() -> None:
    bench = Bench(slots=24, max_running=3)
    bench.add(1, [1] * 8, max_tokens=4)
    bench.step()
    bench.add(2, [2] * 20, max_tokens=1)
    bench.add(3, [3], max_tokens=1)
    bench.run()
    assert [output.id for output in bench.taken if output.id != 1] == [2, 3]


def test_an_urgent_request_takes_the_row_of_one_that_is_not() -> None:
    bench = Bench(policy=Urgent(), max_running=2)
    bench.add(1, [1], max_tokens=9, priority=1)
    bench.add(2, [2], max_tokens=9)
    bench.step()
    bench.add(3, [3], max_tokens=2, priority=5)
    batch = bench.step()
    assert batch is not None
    assert [list(row.tokens) for row in batch.admitted] == [[3]]
    bench.run()
    assert bench.scheduler.counters.retractions == 1
    assert bench.outputs == {1: expected_output([1], 9), 2: expected_output([2], 9), 3: expected_output([3], 2)}


def test_an_urgent_request_takes_the_memory_of_those_that_are_not() -> None:
    bench = Bench(policy=Urgent(), slots=24, max_running=8)
    for id in (1, 2):
        bench.add(id, [id] * 8, max_tokens=4)
    bench.step()
    bench.add(3, [3] * 16, max_tokens=2, priority=5)
    bench.step()
    assert [request.id for request in bench.scheduler.running] == [3]
    bench.run()
    assert bench.outputs[3] == expected_output([3] * 16, 2)
    assert bench.outputs[1] == expected_output([1] * 8, 4)


def test_nobody_gives_way_when_that_is_not_enough() -> None:
    bench = Bench(policy=Urgent(), slots=32, max_running=8)
    bench.add(1, [1] * 10, max_tokens=9, priority=9)
    bench.add(2, [2] * 2, max_tokens=9)
    bench.step()
    bench.add(3, [3] * 28, max_tokens=2, priority=5)
    bench.run()
    assert bench.scheduler.counters.retractions == 0
    assert bench.outputs[3] == expected_output([3] * 28, 2)


def test_equals_do_not_displace_each_other() -> None:
    bench = Bench(policy=Urgent(), max_running=1)
    bench.add(1, [1], max_tokens=5, priority=2)
    bench.step()
    bench.add(2, [2], max_tokens=5, priority=2)
    bench.run()
    assert bench.scheduler.counters.retractions == 0


def test_when_memory_runs_out_the_least_urgent_is_retracted() -> None:
    bench = Bench(policy=Urgent(), slots=24, max_running=4, max_step_tokens=16)
    for id, priority in ((1, 0), (2, 3), (3, 3), (4, 3)):
        bench.add(id, [id] * 3, max_tokens=9, priority=priority)
    while not bench.scheduler.counters.retractions:
        bench.step()
    assert 1 not in [request.id for request in bench.scheduler.running]


class Dropper(Policy):
    def order(self, waiting, cache):
        return list(waiting)[1:]


class Repeater(Policy):
    def order(self, waiting, cache):
        return [waiting[0], *waiting[:-1]]


class Inventor(Policy):
    def order(self, waiting, cache):
        return ["a request", *waiting[1:]]


class Raiser(Policy):
    def order(self, waiting, cache):
        raise RuntimeError("no idea")

    def victim(self, waiting, running):
        raise RuntimeError("no idea")


class Stranger(Urgent):
    def victim(self, waiting, running):
        return waiting


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        (Dropper(), "Dropper dropped request 1"),
        (Repeater(), "Repeater repeated request 1"),
        (Inventor(), "Inventor invented 'a request'"),
        (Raiser(), "Raiser raised RuntimeError('no idea')"),
    ],
)
def test_a_faulty_policy_is_named_and_arrival_order_holds(
    policy: Policy, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(policy=policy, max_running=1)
    for id in (1, 2, 3):
        bench.add(id, [id], max_tokens=1)
    with caplog.at_level("ERROR", logger="sgframe"):
        bench.run()
    assert [output.id for output in bench.taken] == [1, 2, 3]
    assert f"{fault}; taking requests in order of arrival" in caplog.text


def test_a_fault_in_every_round_is_logged_once_in_a_thousand(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(policy=Dropper(), max_running=1)
    for id in range(1, 1006):
        bench.add(id, [id % 40], max_tokens=1)
    with caplog.at_level("ERROR", logger="sgframe"):
        bench.run()
    assert [message.partition(";")[2] for message in caplog.messages] == [
        " taking requests in order of arrival",
        " taking requests in order of arrival (1001 times by now)",
    ]


@pytest.mark.parametrize("policy", [Raiser(), Stranger()])
def test_a_faulty_victim_means_that_nobody_gives_way(policy: Policy, caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(policy=policy, max_running=1)
    bench.add(1, [1], max_tokens=4)
    bench.step()
    bench.add(2, [2], max_tokens=4, priority=9)
    with caplog.at_level("ERROR", logger="sgframe"):
        bench.run()
    assert bench.scheduler.counters.retractions == 0
    assert f"policy {type(policy).__name__} " in caplog.text
    assert "nobody gives way" in caplog.text


def test_the_policy_is_not_asked_again_while_the_next_one_still_does_not_fit() -> None:
    class Counting(NewestFirst):
        asked = 0

        def order(self, waiting, cache):
            Counting.asked += 1
            return waiting

    bench = Bench(slots=24, policy=Counting(), max_running=8)
    bench.add(1, [1] * 8, max_tokens=12)
    bench.step()
    bench.add(2, [2] * 20, max_tokens=1)
    asked = Counting.asked
    for _ in range(8):
        bench.step()
    assert Counting.asked - asked == 1


class Pops(Policy):
    def order(self, waiting, cache):
        waiting.pop()


class SortsInPlace(Policy):
    def order(self, waiting, cache):
        waiting.sort(key=lambda request: -request.id)


@pytest.mark.parametrize("policy", [Pops(), SortsInPlace()])
def test_a_policy_cannot_change_the_queue_itself(policy: Policy) -> None:
    bench = Bench(policy=policy, max_running=1)
    for id in (1, 2, 3):
        bench.add(id, [id], max_tokens=2)
    bench.step()
    assert [request.id for request in bench.scheduler.waiting] == [2, 3]
    bench.run()
    assert sorted(bench.finished) == [1, 2, 3]


@pytest.mark.parametrize("overlap", [False, True])
def test_nobody_gives_way_to_one_that_waits_for_its_twin(overlap: bool) -> None:
    bench = Bench(slots=512, max_running=2, max_step_tokens=5, policy=Urgent(), overlap=overlap)
    long = [i % 47 for i in range(200)]
    bench.add(2, [49], max_tokens=100)
    bench.step()
    bench.step()
    bench.add(3, long, max_tokens=2, priority=2)
    for _ in range(3):
        bench.step()
    bench.add(4, [*long, 9], max_tokens=2, priority=1)
    before = len(bench.outputs[2])
    for _ in range(20):
        bench.step()
    assert len(bench.outputs[2]) - before == 20
    assert bench.scheduler.counters.retractions == 0
    bench.run()


def test_one_whose_twin_is_done_is_not_kept_out_by_a_bigger_one_behind_it() -> None:
    bench = Bench(slots=120, max_running=4, max_step_tokens=60, overlap=True)
    bench.add(1, list(range(40)), max_tokens=60)
    bench.add(2, list(range(40)), max_tokens=1)
    bench.add(3, [7] * 90, max_tokens=1)
    for _ in range(10):
        bench.step()
    assert 2 in bench.finished
    bench.run()
