"""The contract of the transport seam as tests: subclass ``TransportContract`` as ``TestMine`` and give ``make``.

    class TestMyTransport(TransportContract):
        def make(self, folder):
            return MyTransport(MySettings(), folder=folder)

Both ends live in this process, so the death of a process is not among them; a transport between processes tests that
itself.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TypeVar

import pytest

from sgframe.errors import PeerLost
from sgframe.interfaces.transport import AsyncChannel, Channel, Transport
from sgframe.testing.contract import Contract

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds until a test gives up on a frame that should come."""

Sides = tuple[Transport, Transport]
Ends = dict[str, Channel]

either_end = pytest.mark.parametrize(("goes", "stays"), [("listener", "connector"), ("connector", "listener")])


class TransportContract(Contract):
    """``sides`` are the transports of two processes; ``ends`` the two ends of a channel between them that have met."""

    @abstractmethod
    def make(self, folder: Path) -> Transport:
        """The transport under test, as one process has it."""

    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        with TemporaryDirectory(prefix="sgframe-") as name:
            yield Path(name)

    @pytest.fixture
    def sides(self, folder: Path) -> Iterator[Sides]:
        sides = self.make(folder), self.make(folder)
        yield sides
        for side in sides:
            side.close()

    @pytest.fixture
    def ends(self, sides: Sides) -> Ends:
        ends = {"listener": sides[0].listen("channel"), "connector": sides[1].connect("channel")}
        greet(ends["listener"], ends["connector"])
        return ends

    @either_end
    def test_frames_arrive_whole_in_order_and_once(self, ends: Ends, goes: str, stays: str) -> None:
        frames = [bytes([n % 256]) * n for n in range(500)]
        for frame in frames:
            ends[goes].send(frame)
        assert [ends[stays].recv(PATIENCE) for _ in frames] == frames
        assert ends[stays].recv(0) is None

    def test_an_empty_frame_is_a_frame(self, ends: Ends) -> None:
        ends["listener"].send(b"")
        assert ends["connector"].recv(PATIENCE) == b""

    def test_the_directions_are_independent(self, ends: Ends) -> None:
        for n in range(100):
            ends["listener"].send(b"down %d" % n)
            ends["connector"].send(b"up %d" % n)
        assert [ends["listener"].recv(PATIENCE) for _ in range(100)] == [b"up %d" % n for n in range(100)]
        assert [ends["connector"].recv(PATIENCE) for _ in range(100)] == [b"down %d" % n for n in range(100)]

    @either_end
    def test_a_frame_of_64_mib_passes(self, ends: Ends, goes: str, stays: str) -> None:
        frame = bytes(range(256)) * (64 * 1024 * 4)
        ends[goes].send(frame)
        assert ends[stays].recv(PATIENCE) == frame

    def test_channels_of_one_folder_do_not_mix(self, sides: Sides) -> None:
        first, second = sides[0].listen("first"), sides[0].listen("second")
        sides[1].connect("second").send(b"second")
        sides[1].connect("first").send(b"first")
        assert first.recv(PATIENCE) == b"first"
        assert second.recv(PATIENCE) == b"second"

    @either_end
    def test_what_is_sent_before_the_peer_comes_arrives_when_it_has_come(
        self, sides: Sides, goes: str, stays: str
    ) -> None:
        opens = {"listener": sides[0].listen, "connector": sides[1].connect}
        early = opens[goes]("channel")
        early.send(b"1")
        early.send(b"2")
        late = opens[stays]("channel")
        assert [late.recv(PATIENCE), late.recv(PATIENCE)] == [b"1", b"2"]

    @either_end
    def test_a_peer_that_has_not_come_is_not_lost(self, sides: Sides, goes: str, stays: str) -> None:
        opens = {"listener": sides[0].listen, "connector": sides[1].connect}
        early = opens[goes]("channel")
        assert early.recv(0.1) is None
        assert not sides[("listener", "connector").index(goes)].wait([early], 0.1)
        greet(early, opens[stays]("channel"))

    def test_recv_gives_none_when_the_time_is_over(self, ends: Ends) -> None:
        assert ends["listener"].recv(0) is None
        assert ends["connector"].recv(0.05) is None

    @either_end
    def test_a_sleeping_recv_wakes_for_a_frame(self, ends: Ends, goes: str, stays: str) -> None:
        with later(lambda: ends[goes].send(b"wake")):
            assert patiently(ends[stays].recv) == b"wake"

    @either_end
    def test_a_sleeping_recv_wakes_when_the_peer_closes(self, ends: Ends, goes: str, stays: str) -> None:
        with later(ends[goes].close), pytest.raises(PeerLost):
            patiently(ends[stays].recv)

    @either_end
    def test_what_had_arrived_comes_before_the_loss(self, ends: Ends, goes: str, stays: str) -> None:
        for n in range(100):
            ends[goes].send(b"%d" % n)
        ends[goes].close()
        assert [ends[stays].recv(PATIENCE) for _ in range(100)] == [b"%d" % n for n in range(100)]
        for _ in range(2):
            with pytest.raises(PeerLost):
                ends[stays].recv(PATIENCE)

    @either_end
    def test_send_to_a_lost_peer_raises_within_a_second(self, ends: Ends, goes: str, stays: str) -> None:
        ends[goes].close()
        with pytest.raises(PeerLost):
            for _ in range(100):
                ends[stays].send(b"to nobody")
                time.sleep(0.01)

    @either_end
    def test_a_close_without_a_peer_returns_soon_and_a_second_does_nothing(
        self, ends: Ends, goes: str, stays: str
    ) -> None:
        ends[goes].close()
        with suppress(PeerLost):
            ends[stays].send(b"to nobody")
        started = time.monotonic()
        ends[stays].close()
        ends[stays].close()
        assert time.monotonic() - started < 3

    def test_an_end_whose_peer_never_came_can_be_closed(self, sides: Sides) -> None:
        started = time.monotonic()
        for end in (sides[0].listen("a"), sides[1].connect("b")):
            end.send(b"to nobody")
            end.close()
        assert time.monotonic() - started < 5

    @either_end
    def test_wait_sees_the_channel_that_has_a_frame(self, sides: Sides, goes: str, stays: str) -> None:
        down = {"listener": sides[0].listen("a"), "connector": sides[1].connect("a")}
        up = {"listener": sides[1].listen("b"), "connector": sides[0].connect("b")}
        greet(*down.values())
        greet(*up.values())
        mine = [down["listener"], up["connector"]]
        assert not sides[0].wait(mine, 0)
        assert not sides[0].wait(mine, 0.05)
        sender = down["connector"] if goes == "listener" else up["listener"]
        with later(lambda: sender.send(b"frame")):
            assert sides[0].wait(mine, PATIENCE)
        assert sides[0].wait(mine, 0)
        assert mine[0 if goes == "listener" else 1].recv(0) == b"frame"
        assert not sides[0].wait(mine, 0)

    def test_wait_sees_a_lost_peer_each_time(self, sides: Sides, ends: Ends) -> None:
        other = sides[0].listen("other")
        with later(ends["connector"].close):
            assert sides[0].wait([other, ends["listener"]], PATIENCE)
        assert sides[0].wait([other, ends["listener"]], PATIENCE)

    def test_closing_the_transport_closes_its_channels_and_leaves_nothing(self, folder: Path) -> None:
        near, far = self.make(folder), self.make(folder)
        peer = far.connect("channel")
        greet(near.listen("channel"), peer)
        near.listen("nobody came")
        far.connect("nobody listened")
        near.close()
        near.close()
        with pytest.raises(PeerLost):
            peer.recv(PATIENCE)
        far.close()
        assert list(folder.iterdir()) == []

    def test_the_asynchronous_end_speaks_with_a_synchronous_one(self, sides: Sides) -> None:
        peer = sides[1].connect("channel")

        async def converse(channel: AsyncChannel) -> list[bytes]:
            await channel.send(b"hello")
            return [await channel.recv() for _ in range(100)]

        def answer() -> None:
            assert peer.recv(PATIENCE) == b"hello"
            for n in range(100):
                peer.send(b"%d" % n)

        with later(answer):
            assert listening(sides[0], converse) == [b"%d" % n for n in range(100)]

    def test_an_asynchronous_recv_does_not_miss_a_frame_that_came_before_a_send(self, sides: Sides) -> None:
        peer = sides[1].connect("channel")
        peer.send(b"here")

        async def send_while_receiving(channel: AsyncChannel) -> bytes:
            assert await channel.recv() == b"here"
            receiving = asyncio.create_task(channel.recv())
            await asyncio.sleep(0.02)
            peer.send(b"frame")
            time.sleep(0.02)  # the frame arrives while the loop stands still
            await channel.send(b"sent meanwhile")
            return await receiving

        assert listening(sides[0], send_while_receiving) == b"frame"

    def test_the_asynchronous_end_drains_and_then_loses_its_peer(self, sides: Sides) -> None:
        peer = sides[1].connect("channel")

        async def drain(channel: AsyncChannel) -> bytes:
            await channel.send(b"come")
            frame = await channel.recv()
            for _ in range(2):
                with pytest.raises(PeerLost):
                    await channel.recv()
            with pytest.raises(PeerLost):
                await channel.send(b"to nobody")
            return frame

        def say_one_word_and_go() -> None:
            assert peer.recv(PATIENCE) == b"come"
            peer.send(b"word")
            peer.close()

        with later(say_one_word_and_go):
            assert listening(sides[0], drain) == b"word"

    def test_closing_the_asynchronous_end_ends_its_recv_and_is_seen_by_the_peer(self, sides: Sides) -> None:
        peer = sides[1].connect("channel")
        peer.send(b"here")

        async def close_while_receiving(channel: AsyncChannel) -> None:
            assert await channel.recv() == b"here"
            receiving = asyncio.create_task(channel.recv())
            await asyncio.sleep(0.02)
            channel.close()
            channel.close()
            with pytest.raises(PeerLost):
                await receiving

        listening(sides[0], close_while_receiving)
        with pytest.raises(PeerLost):
            peer.recv(PATIENCE)

    def test_a_cancelled_asynchronous_recv_takes_no_frame_with_it(self, sides: Sides) -> None:
        peer = sides[1].connect("channel")
        peer.send(b"first")

        async def cancel(channel: AsyncChannel) -> bytes:
            assert await channel.recv() == b"first"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(channel.recv(), 0.02)
            peer.send(b"second")
            return await channel.recv()

        assert listening(sides[0], cancel) == b"second"


def greet(one: Channel, other: Channel) -> None:
    """A frame each way: then both know that they have met."""
    one.send(b"hello")
    assert other.recv(PATIENCE) == b"hello"
    other.send(b"hello yourself")
    assert one.recv(PATIENCE) == b"hello yourself"


@contextmanager
def later(act: Callable[[], None]) -> Iterator[None]:
    """Run ``act`` on another thread, a moment from now; when the block is left it has ended, or its error is raised."""

    def wait_and_act() -> None:
        time.sleep(0.03)
        act()

    with ThreadPoolExecutor(1) as thread:
        acting = thread.submit(wait_and_act)
        yield
        acting.result()


def patiently(call: Callable[[], T]) -> T:
    """What ``call`` gives or raises, if it comes to that in time; else it is left behind on its thread."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # handed over to the test
            outcome.set_exception(error)

    Thread(target=run, daemon=True).start()
    return outcome.result(PATIENCE)


def listening(transport: Transport, talk: Callable[[AsyncChannel], Awaitable[T]]) -> T:
    """Run ``talk`` in an event loop of its own, with the listening end of the channel."""

    async def run() -> T:
        return await asyncio.wait_for(talk(transport.listen_async("channel")), PATIENCE)

    return asyncio.run(run())
