"""Several replicas as one channel: who gets what, what becomes of it when one is lost, and questions to all."""

from __future__ import annotations

import asyncio

import pytest

from sgframe.errors import PeerLost
from sgframe.front.fleet import Fleet
from sgframe.front.router import Router
from sgframe.interfaces.transport import AsyncChannel
from sgframe.messages import (
    AbortRequest,
    CacheDescribed,
    CacheDescription,
    CachedNode,
    CacheFlushed,
    Decoder,
    DescribeCache,
    Drain,
    Drained,
    Finish,
    FlushCache,
    FrontMessage,
    GenerateRequest,
    Message,
    ReleaseLeases,
    SchedulerMessage,
    StatsReport,
    TokenOutput,
    TokenOutputs,
    encode,
    ints,
)
from sgframe.sampling import TokenSampling
from sgframe.statistics import SchedulerStats, ShadowStats


class ScriptedReplica(AsyncChannel):
    """``got`` is what reached it; ``say`` what it answers."""

    def __init__(self) -> None:
        self.got: list[FrontMessage] = []
        self.broken = False
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._decode: Decoder[FrontMessage] = Decoder(FrontMessage)

    async def send(self, frame: bytes) -> None:
        if self.broken:
            raise PeerLost("gone")
        self.got.append(self._decode(frame))

    async def recv(self) -> bytes:
        message = await self._said.get()
        return encode(message)

    def say(self, message: Message) -> None:
        self._said.put_nowait(message)

    def close(self) -> None: ...


class Front:
    """A fleet of three, and what comes out of it."""

    def __init__(self) -> None:
        self.replicas = {number: ScriptedReplica() for number in range(3)}
        self.broken: list[int] = []
        router = Router([10_000] * 3)
        self.fleet = Fleet(self.replicas, router, lambda number, lost: self.broken.append(number))
        self._decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)

    async def send(self, message: FrontMessage) -> None:
        await self.fleet.send(encode(message))
        await settled()

    async def said(self) -> SchedulerMessage:
        """The next message that is no statistics."""
        while isinstance(message := await self._next(), StatsReport):
            pass
        return message

    async def stats(self) -> SchedulerStats:
        """The next statistics."""
        while not isinstance(message := await self._next(), StatsReport):
            pass
        return message.stats

    async def _next(self) -> SchedulerMessage:
        return self._decode(await asyncio.wait_for(self.fleet.recv(), 5))

    async def request(self, number: int, first: int = 0, length: int = 100) -> int:
        """Send a request; the replica that it reaches."""
        request = GenerateRequest(number, ints([first] * length), 10, ints(), TokenSampling(seed=number))
        await self.send(request)
        (at,) = [name for name, replica in self.replicas.items() if request in replica.got]
        return at

    def ids(self, at: int) -> list[int]:
        return [message.id for message in self.replicas[at].got if isinstance(message, GenerateRequest)]

    async def answer(self, at: int, number: int, tokens: int = 1, finish: Finish | None = None) -> None:
        self.replicas[at].say(TokenOutputs([TokenOutput(number, ints(range(tokens)), 0, finish=finish)]))
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def front() -> Front:
    front = Front()
    yield front
    front.fleet.close()


async def test_requests_spread_and_what_begins_alike_stays_together(front: Front) -> None:
    places = [await front.request(number, first=number) for number in range(3)]
    assert sorted(places) == [0, 1, 2]
    for number, place in enumerate(places):
        await front.answer(place, number, finish=Finish("length"))
    assert [await front.request(10 + number, first=number, length=120) for number in range(3)] == places


async def test_what_a_replica_says_is_passed_on_as_it_is(front: Front) -> None:
    at = await front.request(1)
    await front.answer(at, 1, tokens=2)
    assert await front.said() == TokenOutputs([TokenOutput(1, ints([0, 1]), 0)])


async def test_an_abort_goes_where_the_request_is_and_nowhere_once_it_has_ended(front: Front) -> None:
    at = await front.request(1)
    await front.send(AbortRequest(1, "stop"))
    assert [name for name, each in front.replicas.items() if AbortRequest(1, "stop") in each.got] == [at]
    await front.answer(at, 1, finish=Finish("abort"))
    await front.send(AbortRequest(1, "again"))
    assert not any(AbortRequest(1, "again") in each.got for each in front.replicas.values())


async def test_an_abort_moves_with_its_request(front: Front) -> None:
    at = await front.request(1)
    await front.send(AbortRequest(1, "stop"))
    front.fleet.lose(at, "killed")
    await settled()
    (now,) = [name for name in front.replicas if name != at and 1 in front.ids(name)]
    assert front.replicas[now].got[-1] == AbortRequest(1, "stop")


async def test_a_lost_replicas_requests_move_and_nothing_is_said_of_it(front: Front) -> None:
    at = await front.request(1)
    front.fleet.lose(at, "it died")
    await settled()
    assert sorted(name for name in front.replicas if 1 in front.ids(name) and name != at) != []
    await front.answer(next(name for name in front.replicas if 1 in front.ids(name) and name != at), 1)
    assert await front.said() == TokenOutputs([TokenOutput(1, ints([0]), 0)])


async def test_an_answer_that_has_begun_ends_with_an_error_that_says_so(front: Front) -> None:
    at = await front.request(1)
    await front.answer(at, 1, tokens=3)
    await front.said()
    front.fleet.lose(at, "the worker-0 process was killed by SIGKILL")
    (output,) = (await front.said()).outputs
    assert (output.id, output.finish.reason) == (1, "error")
    assert output.finish.detail == (
        f"replica {at} was lost after 3 tokens of this answer: the worker-0 process was killed by SIGKILL"
    )
    assert sum(1 in front.ids(name) for name in front.replicas) == 1


async def test_a_request_whose_second_replica_is_lost_too_ends_for_it_may_be_what_they_die_of(front: Front) -> None:
    first = await front.request(1)
    front.fleet.lose(first, "it died")
    await settled()
    second = next(name for name in front.replicas if 1 in front.ids(name) and name != first)
    front.fleet.lose(second, "out of memory")
    (output,) = (await front.said()).outputs
    assert (output.id, output.finish.reason) == (1, "error")
    assert output.finish.detail == (
        f"replica {second} was lost, like one before it that had this request: out of memory"
    )


async def test_a_replica_that_has_come_back_is_empty_and_gets_requests(front: Front) -> None:
    places = [await front.request(number, first=number) for number in range(3)]
    front.replicas[0].say(StatsReport(SchedulerStats(steps=5, running=2)))
    await front.stats()
    front.fleet.lose(0, "it died")
    front.replicas[0] = ScriptedReplica()
    front.fleet.join(0, front.replicas[0], 10_000)
    assert await front.request(10, first=10) == 0
    await front.answer(0, 10, finish=Finish("length"))
    assert (await front.said()).outputs[0].id == 10
    assert await front.request(11, first=places.index(0), length=120) != 0, "what it once held lies elsewhere now"
    front.replicas[0].say(StatsReport(SchedulerStats(steps=1, running=1)))
    stats = await front.stats()
    assert (stats.steps, stats.running) == (6, 1)


async def test_an_abort_reaches_a_request_that_moved_after_it(front: Front) -> None:
    at = await front.request(1)
    front.fleet.lose(at, "it died")
    await front.fleet.send(encode(AbortRequest(1, "stop")))
    await settled()
    (moved,) = [replica for name, replica in front.replicas.items() if name != at and replica.got]
    assert [type(message) for message in moved.got] == [GenerateRequest, AbortRequest]


async def test_a_broken_channel_is_told_and_its_request_waits_to_be_moved(front: Front) -> None:
    for replica in front.replicas.values():
        replica.broken = True
    await front.send(GenerateRequest(1, ints([1]), 1, ints(), TokenSampling(seed=1)))
    (at,) = front.broken
    for replica in front.replicas.values():
        replica.broken = False
    front.fleet.lose(at, "it died")
    await settled()
    assert sum(1 in front.ids(name) for name in front.replicas) == 1


async def test_leases_are_released_everywhere(front: Front) -> None:
    await front.send(ReleaseLeases(ints([4, 5])))
    assert all(replica.got == [ReleaseLeases(ints([4, 5]))] for replica in front.replicas.values())


async def test_a_flush_is_answered_once_with_the_sum(front: Front) -> None:
    await front.send(FlushCache(9))
    for replica, tokens in zip(front.replicas.values(), (10, 20, 3), strict=True):
        replica.say(CacheFlushed(9, tokens))
    assert await front.said() == CacheFlushed(9, 33)


async def test_a_drain_waits_for_what_is_open(front: Front) -> None:
    at = await front.request(1)
    await front.send(Drain())
    await front.answer(at, 1, finish=Finish("length"))
    assert (await front.said()).outputs[0].id == 1
    assert await front.said() == Drained()


async def test_a_drain_of_nothing_is_answered_at_once(front: Front) -> None:
    await front.send(Drain())
    assert await front.said() == Drained()


async def test_a_drain_waits_for_what_moves_to_a_replica_that_had_nothing_more_to_do(front: Front) -> None:
    at = await front.request(1)
    await front.send(Drain())
    front.fleet.lose(at, "it died")
    await settled()
    (now,) = [name for name in front.replicas if name != at and 1 in front.ids(name)]
    await front.answer(now, 1, finish=Finish("length"))
    assert await front.said() == TokenOutputs([TokenOutput(1, ints([0]), 0, finish=Finish("length"))])
    assert await front.said() == Drained()


async def test_a_drain_ends_with_an_answer_that_is_lost(front: Front) -> None:
    at = await front.request(1)
    await front.answer(at, 1)
    await front.send(Drain())
    front.fleet.lose(at, "it died")
    await front.said()
    assert (await front.said()).outputs[0].finish.reason == "error"
    assert await front.said() == Drained()


async def test_a_lease_that_was_released_is_not_left_behind_by_a_request_that_moves(front: Front) -> None:
    for number in (1, 2):  # they begin alike, and so go to the same
        await front.send(GenerateRequest(number, ints([1] * 64), 0, ints(), TokenSampling(seed=1), lease=number + 6))
    (at,) = [name for name in front.replicas if front.ids(name)]
    await front.send(ReleaseLeases(ints([7])))
    front.fleet.lose(at, "it died")
    await settled()
    moved = [message for name, each in front.replicas.items() if name != at for message in each.got]
    leases = {message.id: message.lease for message in moved if isinstance(message, GenerateRequest)}
    assert leases == {1: 0, 2: 8}


async def test_a_channel_that_says_what_nobody_understands_counts_as_broken(front: Front) -> None:
    front.replicas[1].say(Drained())
    await settled()
    assert front.broken == [1]


async def test_caches_are_described_as_one_and_no_node_is_taken_for_another(front: Front) -> None:
    def node(number: int, parent: int, reused: int) -> CachedNode:
        return CachedNode(number, parent, 4, ints([1]), reused, 0, 1, 0.0, ())

    await front.send(DescribeCache(9, 3, 1))
    front.replicas[0].say(CacheDescribed(9, CacheDescription(2, 8, [node(5, -1, 70), node(6, 5, 70)])))
    front.replicas[1].say(CacheDescribed(9, CacheDescription(2, 8, [node(5, -1, 90), node(6, 5, 10)])))
    front.replicas[2].say(CacheDescribed(9, CacheDescription(0, 0, [])))
    answer = await front.said()
    assert (answer.description.total_nodes, answer.description.total_tokens) == (4, 16)
    assert [(each.id, each.parent, each.reused) for each in answer.description.nodes] == [
        (16, -1, 90),
        (15, -1, 70),
        (18, 15, 70),
    ]


async def test_statistics_add_up_and_a_lost_replica_leaves_its_counters(front: Front) -> None:
    shadow = ShadowStats("fcfs", "none", 10, 0, 5, overtaken=3, service_overtaken=7)
    front.replicas[0].say(StatsReport(SchedulerStats(steps=5, running=2, slots=100, step_seconds=0.2, shadow=shadow)))
    await front.stats()
    front.replicas[1].say(StatsReport(SchedulerStats(steps=7, running=1, slots=100, step_seconds=0.1, shadow=shadow)))
    stats = await front.stats()
    assert (stats.steps, stats.running, stats.slots, stats.step_seconds) == (12, 3, 200, 0.2)
    assert (stats.shadow.prompt_tokens, stats.shadow.overtaken, stats.shadow.service_overtaken) == (20, 3, 7)
    front.fleet.lose(0, "it died")
    stats = await front.stats()
    assert (stats.steps, stats.running, stats.slots) == (12, 1, 100), "told at once, though no other says anything"
    front.replicas[1].say(StatsReport(SchedulerStats(steps=8, running=0, slots=100)))
    stats = await front.stats()
    assert (stats.steps, stats.running, stats.slots) == (13, 0, 100)
