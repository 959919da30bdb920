"""Whatever replicas do and however often they are lost: each request ends once, and then nobody counts as busy."""

from __future__ import annotations

import asyncio
from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings

from sgframe.front.fleet import Fleet
from sgframe.front.router import Router
from sgframe.interfaces.transport import AsyncChannel
from sgframe.messages import (
    AbortRequest,
    CacheFlushed,
    Decoder,
    Drain,
    Drained,
    Finish,
    FlushCache,
    FrontMessage,
    GenerateRequest,
    Message,
    ReleaseLeases,
    SchedulerMessage,
    TokenOutput,
    TokenOutputs,
    encode,
    ints,
)
from sgframe.sampling import TokenSampling

COUNT, SIZE = 3, 1000


class Replica(AsyncChannel):
    """``open`` are the requests it has, which end when told to, or by an abort. Questions are answered at once."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.got: list[int] = []
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        self._decode: Decoder[FrontMessage] = Decoder(FrontMessage)

    async def send(self, frame: bytes) -> None:
        match self._decode(frame):
            case GenerateRequest(id=request):
                self.open.append(request)
                self.got.append(request)
            case AbortRequest(id=request) if request in self.open:
                self.end(request, "abort")
            case FlushCache(id=question):
                self._said.put_nowait(CacheFlushed(question, 1))

    async def recv(self) -> bytes:
        return encode(await self._said.get())

    def go_on(self, request: int) -> None:
        self._said.put_nowait(TokenOutputs([TokenOutput(request, ints([1, 2]), 0)]))

    def end(self, request: int, reason: str = "length") -> None:
        self.open.remove(request)
        self._said.put_nowait(TokenOutputs([TokenOutput(request, ints(), 0, finish=Finish(reason))]))

    def close(self) -> None: ...


class House:
    """A fleet and its replicas; ``living`` are those that are there, ``replicas`` all that ever were."""

    def __init__(self) -> None:
        self.living = {number: Replica() for number in range(COUNT)}
        self.replicas = list(self.living.values())
        self.router = Router([SIZE] * COUNT)
        self.fleet = Fleet(self.living, self.router, lambda number, lost: None)
        self.sent = self.flushes = 0

    async def do(self, what: str, number: int) -> None:
        """What ``number`` is for depends on ``what``: a prompt, a request's place among the open ones, a replica."""
        at = number % COUNT
        replica = self.living.get(at)
        match what:
            case "ask":
                self.sent += 1
                tokens = ints([number % 4] * (1 + 40 * (number % 7)))
                request = GenerateRequest(self.sent, tokens, 50, ints(), TokenSampling(seed=1), lease=self.sent)
                await self.fleet.send(encode(request))
            case "abort" | "release" if self.sent:
                request = 1 + number % self.sent
                abort, release = AbortRequest(request, "stop"), ReleaseLeases(ints([request]))
                await self.fleet.send(encode(abort if what == "abort" else release))
            case "flush":
                self.flushes += 1
                await self.fleet.send(encode(FlushCache(self.flushes)))
            case "go on" | "end" if replica is not None and replica.open:
                request = replica.open[number % len(replica.open)]
                replica.go_on(request) if what == "go on" else replica.end(request)
            case "lose" if replica is not None and len(self.living) > 1:
                del self.living[at]
                self.fleet.lose(at, "it died")
            case "join" if replica is None:
                self.living[at] = Replica()
                self.replicas.append(self.living[at])
                self.fleet.join(at, self.living[at], SIZE)

    async def end_all(self) -> Counter[int]:
        """How often each request has ended, once all have."""
        await self.fleet.send(encode(Drain()))
        await settled()
        for replica in self.living.values():
            for request in list(replica.open):
                replica.end(request)
        ends: Counter[int] = Counter()
        decode: Decoder[SchedulerMessage] = Decoder(SchedulerMessage)
        while not isinstance(message := decode(await asyncio.wait_for(self.fleet.recv(), 5)), Drained):
            if isinstance(message, TokenOutputs):
                ends.update(output.id for output in message.outputs if output.finish is not None)
        self.fleet.close()
        return ends


async def settled() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


WHATS = ("ask", "ask", "ask", "go on", "end", "abort", "release", "flush", "lose", "join")
Steps = list[tuple[str, int, bool]]


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(WHATS), st.integers(0, 50), st.booleans()), max_size=40))
def test_each_request_ends_once_moves_once_at_most_and_leaves_no_load(steps: Steps) -> None:
    async def live() -> None:
        house = House()
        for what, number, settle in steps:
            await house.do(what, number)
            if settle:
                await settled()
        assert await house.end_all() == dict.fromkeys(range(1, house.sent + 1), 1)
        assert house.router.loads == dict.fromkeys(house.living, 0)
        came = Counter(request for replica in house.replicas for request in replica.got)
        assert all(times <= 2 for times in came.values())

    asyncio.run(live())
