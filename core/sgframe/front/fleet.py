"""Several replicas as one channel: to whoever speaks with a scheduler they are one.

Owns where each open request is, and sends those of a lost replica elsewhere. Knows neither processes nor text.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, assert_never

import msgspec

from sgframe.errors import PeerLost
from sgframe.front.router import Route, Router
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
    Ints,
    Loaded,
    ReleaseLeases,
    SchedulerMessage,
    StatsReport,
    TokenOutput,
    TokenOutputs,
    UseVocabulary,
    encode,
    ints,
)
from sgframe.statistics import SchedulerStats, combined, past

log = logging.getLogger(__name__)

Question = FlushCache | DescribeCache
Answer = CacheFlushed | CacheDescribed


@dataclass(slots=True)
class _Open:
    """A request at its replica. ``frame`` is it, as long as nothing came of it; ``tokens`` came of it. ``abort`` is what
    aborts it, once that was asked for. ``moved`` says that its first replica was lost. ``lease`` is the lease that it is to
    leave behind, 0 if none is wanted any more."""

    frame: bytes
    route: Route
    lease: int
    moved: bool = False
    tokens: int = 0
    abort: bytes = b""


@dataclass(slots=True)
class _Asked:
    """A question to all replicas, and what those said that are not ``missing`` any more."""

    question: Question
    missing: set[int]
    answers: dict[int, Answer] = field(default_factory=dict)


class Fleet(AsyncChannel):
    """Made in the running event loop of the replicas' ``channels``, which stay their owners'.

    ``on_broken`` hears of a channel that is lost; ``lose`` then says that its replica is, and why. Another may ``join`` in
    its place.
    """

    def __init__(
        self, channels: Mapping[int, AsyncChannel], router: Router, on_broken: Callable[[int, PeerLost], None]
    ) -> None:
        self._router = router
        self._on_broken = on_broken
        self._count = len(channels)
        self._lanes = {number: _Lane(number, channel, self._take, on_broken) for number, channel in channels.items()}
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self._open: dict[int, _Open] = {}
        self._leasing: dict[int, _Open] = {}
        """By its lease, each open request that is to leave one behind."""
        self._draining = False
        self._asked: dict[int, _Asked] = {}
        self._stats = dict.fromkeys(channels, SchedulerStats())
        self._past = SchedulerStats()
        self._decode_front: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)

    async def send(self, frame: bytes) -> None:
        message = self._decode_front(frame)
        match message:
            case GenerateRequest():
                self._place(message, frame)
            case AbortRequest(id=request):
                self._abort(request, frame)
            case FlushCache() | DescribeCache():
                self._ask(message, frame)
            case ReleaseLeases(leases=leases):
                self._release(leases)
                self._tell(frame)
            case Drain():
                self._draining = True
                self._end_drain()
            case UseVocabulary():
                raise AssertionError("the vocabulary is sent once, before anything else")
            case _:
                assert_never(message)

    async def recv(self) -> bytes:
        return await self._incoming.get()

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def join(self, number: int, channel: AsyncChannel, slots: int) -> None:
        """A replica with an empty cache of so many ``slots`` has come, by the number of one that was lost."""
        self._lanes[number] = _Lane(number, channel, self._take, self._on_broken)
        self._router.add(number, slots)
        self._stats[number] = SchedulerStats()

    def lose(self, number: int, reason: str) -> None:
        """That replica is gone: its requests move, but for those whose answer has begun. There must be another.

        None moves twice: it may be what the replicas die of.
        """
        self._lanes.pop(number).close()
        self._router.remove(number)
        self._past = combined([self._past, past(self._stats.pop(number))])
        for request, one in [each for each in self._open.items() if each[1].route.replica == number]:
            self._forget(request)
            if one.tokens:
                self._fail(request, f"replica {number} was lost after {one.tokens} tokens of this answer: {reason}")
            elif one.moved:
                self._fail(request, f"replica {number} was lost, like one before it that had this request: {reason}")
            else:
                self._move(request, one)
        for asked in list(self._asked.values()):
            self._miss(asked, number)
        self._give_stats()
        self._end_drain()

    # -------------------------------------------------------------------------------------------- to the replicas

    def _place(self, message: GenerateRequest, frame: bytes, *, moved: bool = False) -> None:
        route = self._router.route(message.tokens, message.max_tokens, message.namespace)
        one = self._open[message.id] = _Open(frame, route, message.lease, moved)
        if one.lease:
            self._leasing[one.lease] = one
        self._lanes[route.replica].put(frame)

    def _move(self, request: int, one: _Open) -> None:
        message = self._decode_front(one.frame)
        assert isinstance(message, GenerateRequest)
        moved = msgspec.structs.replace(message, lease=one.lease)  # its new replica did not hear of a release
        self._place(moved, encode(moved), moved=True)
        if one.abort:
            self._abort(request, one.abort)

    def _abort(self, request: int, frame: bytes) -> None:
        if one := self._open.get(request):
            one.abort = frame
            self._lanes[one.route.replica].put(frame)

    def _release(self, leases: Ints) -> None:
        for lease in leases:
            if one := self._leasing.pop(lease, None):
                one.lease = 0

    def _ask(self, question: Question, frame: bytes) -> None:
        self._asked[question.id] = _Asked(question, set(self._lanes))
        if isinstance(question, FlushCache):
            self._router.forget()
        self._tell(frame)

    def _tell(self, frame: bytes) -> None:
        for lane in self._lanes.values():
            lane.put(frame)

    # -------------------------------------------------------------------------------------------- from the replicas

    def _take(self, number: int, frame: bytes) -> None:
        message = self._decode(frame)
        match message:
            case TokenOutputs(outputs=outputs):
                for output in outputs:
                    self._note(output)
                self._incoming.put_nowait(frame)
                self._end_drain()
            case StatsReport(stats=stats):
                self._stats[number] = stats
                self._give_stats()
            case CacheFlushed() | CacheDescribed():
                asked = self._asked[message.id]
                asked.answers[number] = message
                self._miss(asked, number)
            case Loaded() | Drained():
                raise AssertionError(f"nobody asked for {message}")
            case _:
                assert_never(message)

    def _note(self, output: TokenOutput) -> None:
        one = self._open.get(output.id)
        if one is None:
            return
        if output.tokens:
            one.frame = b""
            one.tokens += len(output.tokens)
            self._router.answered(one.route)
        if output.finish is not None:
            self._router.ended(one.route)
            self._forget(output.id)

    def _forget(self, request: int) -> None:
        """It has ended, or is to be placed anew."""
        self._leasing.pop(self._open.pop(request).lease, None)

    def _miss(self, asked: _Asked, number: int) -> None:
        """Replica ``number`` has answered, or will not any more."""
        asked.missing.discard(number)
        if not asked.missing and self._asked.pop(asked.question.id, None) is not None:
            self._give(_joined(asked, self._count))

    def _fail(self, request: int, reason: str) -> None:
        self._give(TokenOutputs([TokenOutput(request, ints(), 0, finish=Finish("error", detail=reason))]))

    def _end_drain(self) -> None:
        """Drained is who has no open request: a replica cannot say that, since others' may yet move there."""
        if self._draining and not self._open:
            self._draining = False
            self._give(Drained())

    def _give_stats(self) -> None:
        self._give(StatsReport(combined([self._past, *self._stats.values()])))

    def _give(self, message: SchedulerMessage) -> None:
        self._incoming.put_nowait(encode(message))


class _Lane:
    """The way to one replica and back. What is put first leaves first."""

    def __init__(
        self,
        number: int,
        channel: AsyncChannel,
        take: Callable[[int, bytes], None],
        on_broken: Callable[[int, PeerLost], None],
    ) -> None:
        self._number = number
        self._channel = channel
        self._take = take
        self._on_broken = on_broken
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.put = self._outgoing.put_nowait
        self._tasks = [asyncio.create_task(self._until_broken(traffic)) for traffic in (self._send, self._receive)]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _send(self) -> NoReturn:
        while True:
            await self._channel.send(await self._outgoing.get())

    async def _receive(self) -> NoReturn:
        while True:
            self._take(self._number, await self._channel.recv())

    async def _until_broken(self, traffic: Callable[[], Awaitable[NoReturn]]) -> None:
        try:
            await traffic()
        except PeerLost as lost:
            self._on_broken(self._number, lost)
        except Exception as error:  # such as a message of another version's: nobody would be answered any more
            log.exception("the traffic with replica %d broke off", self._number)
            self._on_broken(self._number, PeerLost(f"its traffic broke off: {error!r}"))


def _joined(asked: _Asked, count: int) -> Answer:
    """One answer of all; ``count`` replicas there are, or were."""
    match asked.question:
        case FlushCache(id=question):
            flushed = [answer.tokens for answer in asked.answers.values() if isinstance(answer, CacheFlushed)]
            return CacheFlushed(question, sum(flushed))
        case DescribeCache(id=question, limit=limit):
            told = {number: each for number, each in asked.answers.items() if isinstance(each, CacheDescribed)}
            return CacheDescribed(question, _description(told, limit, count))


def _description(told: Mapping[int, CacheDescribed], limit: int, count: int) -> CacheDescription:
    described = [answer.description for answer in told.values()]
    lists = [[_renumbered(node, number, count) for node in answer.description.nodes] for number, answer in told.items()]
    nodes = list(heapq.merge(*lists, key=lambda node: -node.reused))[:limit]  # equals keep their order: parents first
    return CacheDescription(sum(each.total_nodes for each in described), sum(e.total_tokens for e in described), nodes)


def _renumbered(node: CachedNode, number: int, count: int) -> CachedNode:
    """With an id that no node of another replica has."""
    parent = node.parent if node.parent < 0 else node.parent * count + number
    return msgspec.structs.replace(node, id=node.id * count + number, parent=parent)
