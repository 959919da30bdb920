"""Several replicas as one channel: to whoever speaks with a scheduler they are one.

Owns where each open request is, and sends those of a lost replica elsewhere. Knows neither processes nor text.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

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

Question = FlushCache | DescribeCache | Drain
Answer = CacheFlushed | CacheDescribed | Drained


@dataclass(slots=True)
class _Open:
    """A request at its replica. ``frame`` is it, as long as nothing came of it; ``tokens`` came of it. ``abort`` is what
    aborts it, once that was asked for."""

    frame: bytes
    route: Route
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

    ``on_broken`` hears of a channel that is lost; ``lose`` then says that its replica is, and why.
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
        self._asked: dict[int, _Asked] = {}
        self._stats = dict.fromkeys(channels, SchedulerStats())
        self._decode_front: Decoder[FrontMessage] = Decoder(FrontMessage)
        self._decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)

    async def send(self, frame: bytes) -> None:
        message = self._decode_front(frame)
        match message:
            case GenerateRequest():
                self._place(message, frame)
            case AbortRequest(id=request):
                self._abort(request, frame)
            case FlushCache() | DescribeCache() | Drain():
                self._ask(message, frame)
            case ReleaseLeases() | UseVocabulary():
                self._tell(frame)
            case _:
                assert_never(message)

    async def recv(self) -> bytes:
        return await self._incoming.get()

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def lose(self, number: int, reason: str) -> None:
        """That replica is gone: its requests move, but for those whose answer has begun. There must be another."""
        self._lanes.pop(number).close()
        self._router.remove(number)
        self._stats[number] = past(self._stats[number])
        for request, one in [each for each in self._open.items() if each[1].route.replica == number]:
            del self._open[request]
            if one.tokens:
                self._fail(request, f"replica {number} was lost after {one.tokens} tokens of this answer: {reason}")
            else:
                message = self._decode_front(one.frame)
                assert isinstance(message, GenerateRequest)
                self._place(message, one.frame)
                if one.abort:
                    self._abort(request, one.abort)
        for asked in list(self._asked.values()):
            self._miss(asked, number)

    # -------------------------------------------------------------------------------------------- to the replicas

    def _place(self, message: GenerateRequest, frame: bytes) -> None:
        route = self._router.route(message.tokens, message.max_tokens, message.namespace)
        self._open[message.id] = _Open(frame, route)
        self._lanes[route.replica].put(frame)

    def _abort(self, request: int, frame: bytes) -> None:
        if one := self._open.get(request):
            one.abort = frame
            self._lanes[one.route.replica].put(frame)

    def _ask(self, question: Question, frame: bytes) -> None:
        self._asked[_id(question)] = _Asked(question, set(self._lanes))
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
            case StatsReport(stats=stats):
                self._stats[number] = stats
                self._give(StatsReport(combined(list(self._stats.values()))))
            case CacheFlushed() | CacheDescribed() | Drained():
                asked = self._asked[_id(message)]
                asked.answers[number] = message
                self._miss(asked, number)
            case Loaded():
                raise AssertionError("a model is loaded once")
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
            del self._open[output.id]

    def _miss(self, asked: _Asked, number: int) -> None:
        """Replica ``number`` has answered, or will not any more."""
        asked.missing.discard(number)
        if not asked.missing and self._asked.pop(_id(asked.question), None) is not None:
            self._give(_joined(asked, self._count))

    def _fail(self, request: int, reason: str) -> None:
        self._give(TokenOutputs([TokenOutput(request, ints(), 0, finish=Finish("error", detail=reason))]))

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
        self._tasks = [asyncio.create_task(traffic()) for traffic in (self._send, self._receive)]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _send(self) -> None:
        try:
            while True:
                await self._channel.send(await self._outgoing.get())
        except PeerLost as lost:
            self._on_broken(self._number, lost)

    async def _receive(self) -> None:
        try:
            while True:
                self._take(self._number, await self._channel.recv())
        except PeerLost as lost:
            self._on_broken(self._number, lost)


def _id(message: Question | Answer) -> int:
    """Drains have no number; there is one at most."""
    return 0 if isinstance(message, (Drain, Drained)) else message.id


def _joined(asked: _Asked, count: int) -> Answer:
    """One answer of all; ``count`` replicas there are, or were."""
    match asked.question:
        case FlushCache(id=question):
            flushed = [answer.tokens for answer in asked.answers.values() if isinstance(answer, CacheFlushed)]
            return CacheFlushed(question, sum(flushed))
        case DescribeCache(id=question, limit=limit):
            told = {number: each for number, each in asked.answers.items() if isinstance(each, CacheDescribed)}
            return CacheDescribed(question, _description(told, limit, count))
        case Drain():
            return Drained()


def _description(told: Mapping[int, CacheDescribed], limit: int, count: int) -> CacheDescription:
    described = [answer.description for answer in told.values()]
    lists = [[_renumbered(node, number, count) for node in answer.description.nodes] for number, answer in told.items()]
    nodes = list(heapq.merge(*lists, key=lambda node: -node.reused))[:limit]  # equals keep their order: parents first
    return CacheDescription(sum(each.total_nodes for each in described), sum(e.total_tokens for e in described), nodes)


def _renumbered(node: CachedNode, number: int, count: int) -> CachedNode:
    """With an id that no node of another replica has."""
    parent = node.parent if node.parent < 0 else node.parent * count + number
    return msgspec.structs.replace(node, id=node.id * count + number, parent=parent)
