"""Who is lost, silent, late or of another mind is named by the lifeline, whatever the ranks themselves are doing."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import pytest
import torch

from sgframe.errors import ConfigError, RankLost
from sgframe.interfaces.backend import Ranks
from sgframe.messages import ScheduleBatch, encode, ints
from sgframe_torch.parallel import contact as contacting
from sgframe_torch.parallel import lifeline as lifelines
from sgframe_torch.parallel.contact import contact
from sgframe_torch.parallel.digest import PlanDigest
from sgframe_torch.parallel.distributed import join
from sgframe_torch.parallel.lifeline import Lifeline
from sgframe_torch.parallel.pace import BETWEEN, Pace, Standing, standstill
from sgframe_torch.parallel.roll import place
from sgframe_torch.parallel.wire import Beat, Goodbye


class SharedStore:
    """A store of one process."""

    def __init__(self):
        self._values, self._set = {}, threading.Condition()

    def set(self, key, value, /):
        with self._set:
            self._values[key] = value.encode()
            self._set.notify_all()

    def get(self, key, /):
        with self._set:
            self._set.wait_for(lambda: key in self._values)
            return self._values[key]


class Watched:
    """A rank with a lifeline; ``verdicts`` are what it gave up for."""

    def __init__(self, ranks, store):
        self.pace, self.digest, self.verdicts = Pace(), PlanDigest(ranks.digest_interval), queue.SimpleQueue()
        self.lifeline = Lifeline.start(ranks, store, self.pace, self.digest, self.verdicts.put)

    def verdict(self, within=1.0):
        return self.verdicts.get(timeout=within)


class Scripted:
    """A rank that does only what the test tells it to."""

    def __init__(self, ranks, store):
        (self.wire, _), *_ = contact(ranks, store)

    def beat(self):
        self.wire.send(Beat(BETWEEN, 0, []))


@pytest.fixture
def together():
    """``together(*kinds)``: a rank of each kind, in contact with each other."""
    watched = []

    def start(*kinds, **settings):
        store, several = SharedStore(), [Ranks(rank, len(kinds), **settings) for rank in range(len(kinds))]
        with ThreadPoolExecutor(len(kinds)) as pool:
            made = list(pool.map(lambda kind, ranks: kind(ranks, store), kinds, several))
        watched.extend(each for each in made if isinstance(each, Watched))
        return made

    yield start
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: each.lifeline.close(), watched))


@pytest.fixture
def impatient(monkeypatch):
    """Limits that a test can wait for."""
    monkeypatch.setattr(lifelines, "BEAT_INTERVAL", 0.02)
    monkeypatch.setattr(lifelines, "SILENCE", 0.3)
    monkeypatch.setattr(lifelines, "FAREWELL", 0.3)


def test_a_rank_that_dies_while_all_are_idle_is_named_at_once(together):
    first, second = together(Watched, Scripted)
    second.wire.close()
    assert first.verdict(within=0.2) == f"rank 1 of 2 ({place()}) died"


def test_the_others_are_told_who_died(together):
    first, second, third = together(Watched, Watched, Scripted)
    third.wire.close()
    assert first.verdict() == second.verdict() == f"rank 2 of 3 ({place()}) died"


def test_a_rank_that_loses_rank_0_names_it(together):
    first, second = together(Scripted, Watched)
    first.wire.close()
    assert second.verdict(within=0.2) == f"rank 0 of 2 ({place()}) died"


@pytest.mark.parametrize(("kinds", "silent"), [((Watched, Scripted), 1), ((Scripted, Watched), 0)])
def test_a_silent_rank_is_named(together, impatient, kinds, silent):
    ranks = together(*kinds)
    verdict = ranks[1 - silent].verdict(within=2.0)
    assert verdict.startswith(f"rank {silent} of 2 ({place()}) has been silent for 0.")
    assert verdict.endswith("s: its process is stopped, or the network is lost")


def test_a_rank_that_says_it_lives_is_not_given_up(together, impatient):
    first, second = together(Watched, Scripted)
    for _ in range(30):
        second.beat()
        time.sleep(0.02)
    assert first.verdicts.empty()


def test_ranks_that_leave_are_not_mourned(together):
    ranks = together(Watched, Watched, Watched)
    for rank in ranks:
        rank.lifeline.close()
    assert [rank.verdicts.empty() for rank in ranks] == [True] * 3


def test_the_last_rank_may_leave_first_and_close_twice(together):
    ranks = together(Watched, Watched, Watched)
    for rank in reversed(ranks):
        rank.lifeline.close()
        rank.lifeline.close()
    assert [rank.verdicts.empty() for rank in ranks] == [True] * 3


def test_a_rank_that_leaves_for_a_failure_ends_the_others_for_it(together):
    first, second, third = together(Watched, Watched, Watched)
    second.lifeline.close("RuntimeError: out of memory")
    reason = f"rank 1 of 3 ({place()}) failed: RuntimeError: out of memory"
    assert first.verdict() == third.verdict() == reason
    assert second.verdicts.empty()


def test_a_rank_that_stays_when_another_has_left_is_given_up(together, impatient):
    first, second = together(Watched, Watched)
    first.lifeline.close()
    assert second.verdict(within=2.0) == (
        f"rank 0 of 2 ({place()}) has left 0.3 s ago, and rank 1 of 2 ({place()}) has not ended"
    )


def test_rank_0_names_who_holds_up_a_step(together, impatient):
    first, second, third = together(Watched, Watched, Watched, step_timeout=0.2)
    for rank, entered in [(third, 18), (second, 30), (first, 30)]:
        rank.pace.entered, rank.pace.step = entered, 17
    verdict = first.verdict()
    assert verdict.startswith(f"rank 2 of 3 ({place()}) stands still: in step 17 for 0.")
    assert verdict.endswith("s, 12 collectives behind. If a step may take longer than 0.2 s, raise --step-timeout")
    assert second.verdict() == verdict


def test_rank_0_names_itself_when_it_holds_up_a_step(together, impatient):
    first, second = together(Watched, Watched, step_timeout=0.2)
    for rank, entered in [(first, 30), (second, 31)]:
        rank.pace.entered, rank.pace.step = entered, 17
    assert first.verdict().startswith(f"rank 0 of 2 ({place()}) stands still: in step 17 for 0.")


def test_steps_that_follow_each_other_may_take_longer_than_one(together, impatient):
    first, _ = together(Watched, Watched, step_timeout=0.2)
    for step in range(8):
        first.pace.step = step
        time.sleep(0.08)
    first.pace.step = BETWEEN
    assert first.verdicts.empty()


def test_nobody_is_late_between_steps():
    assert standstill([Standing("a"), Standing("b", entered=1)], now=1e6, timeout=1.0) == ""


def test_all_who_are_behind_are_named():
    ranks = [Standing("a", 3, 0.0, 9), Standing("b", 3, 0.0, 7), Standing("c", BETWEEN, 0.0, 7)]
    assert standstill(ranks, now=5.0, timeout=4.0) == (
        "b stands still: in step 3 for 5.0 s, 2 collectives behind; c stands still: between steps, 2 collectives behind. "
        "If a step may take longer than 4 s, raise --step-timeout"
    )


def test_when_nobody_is_behind_all_stand_still():
    ranks = [Standing("a", 3, 0.0, 7), Standing("b", 3, 1.0, 7)]
    assert standstill(ranks, now=5.0, timeout=4.0) == (
        "all ranks stand still: in step 3 for 5.0 s, with 7 collectives entered by each. "
        "If a step may take longer than 4 s, raise --step-timeout"
    )


def plan(step, slot):
    return encode(ScheduleBatch(step, ints(), [], [], ints([0]), ints([1]), ints([slot]), ints([1])))


def test_a_rank_that_executed_another_plan_is_named_with_both(together, impatient):
    first, second, third = together(Watched, Watched, Watched, digest_interval=4)
    for step in range(6):
        first.digest.update(step, plan(step, slot=7))
        second.digest.update(step, plan(step, slot=7))
        third.digest.update(step, plan(step, slot=8 if step == 2 else 7))
    verdict = first.verdict()
    assert verdict.startswith(
        f"rank 2 of 3 ({place()}) has not executed what rank 0 has. The first step known to differ is 2:"
    )
    assert "> step 2, rank 0: rows 0; counts 1; slots 7;" in verdict
    assert f"> step 2, rank 2 of 3 ({place()}): rows 0; counts 1; slots 8;" in verdict
    assert second.verdict() == third.verdict() == verdict


def test_ranks_that_execute_the_same_at_different_times_agree(together, impatient):
    first, second = together(Watched, Watched, digest_interval=1)
    for rank in (second, first):
        for step in range(20):
            rank.digest.update(step, plan(step, slot=7))
        time.sleep(0.1)
    assert first.verdicts.empty()
    assert second.verdicts.empty()


def test_who_is_behind_a_failed_collective_can_be_waited_for(together):
    first, second = together(Watched, Scripted)
    threading.Timer(0.1, second.wire.close).start()
    assert first.lifeline.verdict() == f"rank 1 of 2 ({place()}) died"


def test_there_is_no_verdict_when_nobody_is_lost(together, impatient):
    first, _ = together(Watched, Watched)
    assert first.lifeline.verdict() == ""


def test_a_lifeline_that_fails_ends_its_rank_and_the_others(together, impatient):
    first, second = together(Watched, Watched)
    first.digest.due = lambda: int("x")
    reason = f"the lifeline of rank 0 of 2 ({place()}) failed: ValueError: invalid literal for int() with base 10: 'x'"
    assert first.verdict() == second.verdict() == reason


def test_one_rank_is_given_up_once(together):
    first, second, third = together(Watched, Scripted, Scripted)
    second.wire.send(Goodbye("one"))
    third.wire.close()
    first.verdict()
    time.sleep(0.1)
    assert first.verdicts.empty()


def test_a_stranger_is_turned_away(together):
    store = SharedStore()

    def knock(secret):
        port = msgspec.json.decode(store.get("lifeline"))["port"]
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
            stranger.sendall(secret)
            assert stranger.recv(10) == b""

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(contact, Ranks(0, 2), store)
        knock(b"GET / HTTP/1.1\r\n\r\n")
        frame = msgspec.msgpack.encode(["Hello", 1, "guessed", "nowhere"])
        knock(len(frame).to_bytes(4, "little") + frame)
        frame = msgspec.msgpack.encode(["Hello", 1, "gu\u00e9ssed", "nowhere"])
        knock(len(frame).to_bytes(4, "little") + frame)
        ((second, _),) = contact(Ranks(1, 2), store)
    ((wire, hello),) = first.result()
    assert hello.place == place()
    for each in (wire, second):
        each.close()


def test_a_hello_may_arrive_in_pieces():
    store = SharedStore()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(contact, Ranks(0, 2), store)
        published = msgspec.json.decode(store.get("lifeline"))
        frame = msgspec.msgpack.encode(["Hello", 1, published["secret"], "elsewhere"])
        with socket.create_connection(("127.0.0.1", published["port"]), timeout=5) as second:
            second.sendall(len(frame).to_bytes(4, "little") + frame[:5])
            time.sleep(0.05)
            second.sendall(frame[5:])
            ((wire, hello),) = first.result(timeout=5)
    wire.close()
    assert hello.place == "elsewhere"


def test_ranks_that_do_not_come_into_contact_are_named(monkeypatch):
    monkeypatch.setattr(contacting, "CONTACT_TIMEOUT", 0.1)
    with pytest.raises(
        ConfigError, match=r"of 3 ranks, 1, 2 did not connect to rank 0 at 127\.0\.0\.1:\d+ within 0\.1 s"
    ):
        contact(Ranks(0, 3), SharedStore())


def test_rank_0_listens_at_an_address_of_its_machine_only():
    ranks = Ranks(0, 2, nodes=2, address="192.0.2.1:29511")
    with pytest.raises(ConfigError, match=r"rank 0 cannot listen at 192\.0\.2\.1"):
        contact(ranks, SharedStore())


def test_a_rank_that_cannot_reach_rank_0_says_so():
    store = SharedStore()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    store.set("lifeline", f'{{"port": {port}, "secret": ""}}')
    with pytest.raises(ConfigError, match=rf"rank 1 of 2 cannot reach rank 0 at 127\.0\.0\.1:{port} .*refused"):
        contact(Ranks(1, 2), store)


def in_a_collective(ranks, folder, fate):
    """Rank 1 meets ``fate``, which is a signal; the others wait for it in a collective. Returns when they gave up."""
    pace = Pace()
    group = join(replace(ranks, step_timeout=60.0), "gloo", torch.device("cpu"), pace)

    def give_up(reason):
        (folder / f"{ranks.rank}").write_text(reason)
        os._exit(3)

    lifeline = Lifeline.start(ranks, group.store, pace, PlanDigest(64), give_up)
    if ranks.rank == 1:
        os.kill(os.getpid(), fate)
    try:
        group.all_reduce(torch.ones(1))
    except RankLost:
        lifeline.verdict()


def test_a_rank_killed_in_a_collective_is_named_by_the_others(ranks, tmp_path):
    outcomes = ranks.outcomes(3, in_a_collective, tmp_path, signal.SIGKILL, patience=10.0)
    assert [outcome.args for outcome in outcomes] == [(3,), (-signal.SIGKILL,), (3,)]
    first, third = (tmp_path / "0").read_text(), (tmp_path / "2").read_text()
    assert first == third
    assert first.startswith("rank 1 of 3 (pid ")
    assert first.endswith(" died")


@pytest.mark.slow
def test_a_rank_stopped_in_a_collective_is_named_by_the_others(ranks, tmp_path):
    outcomes = ranks.outcomes(3, in_a_collective, tmp_path, signal.SIGSTOP, patience=8.0)
    assert [type(outcome).__name__ for outcome in outcomes] == ["RankDied", "TimeoutError", "RankDied"]
    first, third = (tmp_path / "0").read_text(), (tmp_path / "2").read_text()
    assert first == third
    assert first.startswith("rank 1 of 3 (pid ")
    assert "has been silent for 3." in first
