"""Transports with one fault each, around a sound one: what the transport contract must catch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sgframe.errors import PeerLost
from sgframe.interfaces.transport import AsyncChannel, Channel, Transport
from sgframe_basic.inproc import InprocTransport


class SoundEnd(Channel):
    """Hands every call on to an end without a fault."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner
        self.sent = 0

    def send(self, frame: bytes) -> None:
        self.inner.send(frame)
        self.sent += 1

    def recv(self, timeout: float | None = None) -> bytes | None:
        return self.inner.recv(timeout)

    def close(self) -> None:
        self.inner.close()


class SoundAsyncEnd(AsyncChannel):
    def __init__(self, inner: AsyncChannel) -> None:
        self.inner = inner
        self.sent = 0

    async def send(self, frame: bytes) -> None:
        self.sent += 1
        await self.inner.send(frame)

    async def recv(self) -> bytes:
        return await self.inner.recv()

    def close(self) -> None:
        self.inner.close()


class Sound(Transport):
    """Its ends are of the classes ``end`` and ``async_end``."""

    end: type[SoundEnd] = SoundEnd
    async_end: type[SoundAsyncEnd] = SoundAsyncEnd

    def __init__(self, settings: None, *, folder: Path) -> None:
        self.folder = folder
        self.inner = InprocTransport(settings, folder=folder)

    def listen(self, name: str) -> Channel:
        return self.end(self.inner.listen(name))

    def connect(self, name: str) -> Channel:
        return self.end(self.inner.connect(name))

    def listen_async(self, name: str) -> AsyncChannel:
        return self.async_end(self.inner.listen_async(name))

    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        return self.inner.wait([end.inner for end in channels if isinstance(end, SoundEnd)], timeout)

    def close(self) -> None:
        self.inner.close()


# -------------------------------------------------------------------------------------------------------- frames


class CutsLongFrames(Sound):
    class end(SoundEnd):
        def send(self, frame: bytes) -> None:
            super().send(frame[: 2**20])


class LosesAFrame(Sound):
    class end(SoundEnd):
        def send(self, frame: bytes) -> None:
            if self.sent == 300:
                self.sent += 1
            else:
                super().send(frame)


class Holding(SoundEnd):
    """May look at a frame that came, and give it later."""

    def __init__(self, inner: Channel) -> None:
        super().__init__(inner)
        self.held: list[bytes] = []

    def recv(self, timeout: float | None = None) -> bytes | None:
        return self.held.pop(0) if self.held else super().recv(timeout)


class SwapsTwoFrames(Sound):
    class end(Holding):
        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            if frame is not None and len(frame) == 300:
                self.held.append(frame)
                return self.inner.recv(timeout)
            return frame


class DropsEmptyFrames(Sound):
    class end(SoundEnd):
        def send(self, frame: bytes) -> None:
            if frame:
                super().send(frame)


class SpeaksOneWayAtATime(Sound):
    """The first frame that is sent while something waits to be received is lost."""

    class end(Holding):
        def send(self, frame: bytes) -> None:
            waiting = None if self.held else self.inner.recv(0)
            if waiting is None:
                super().send(frame)
            else:
                self.held.append(waiting)


class MixesUpChannels(Sound):
    def connect(self, name: str) -> Channel:
        return super().connect({"first": "second", "second": "first"}.get(name, name))


# ------------------------------------------------------------------------------------------------- coming and going


class LosesWhatIsSentToNobodyYet(Sound):
    """One frame of what comes before the peer has said anything."""

    class end(SoundEnd):
        met = False

        def send(self, frame: bytes) -> None:
            if self.met or frame != b"1":
                super().send(frame)

        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            self.met |= frame is not None
            return frame


class TakesAnAbsentPeerForLost(Sound):
    class end(SoundEnd):
        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            if frame is None and timeout == 0.1:
                raise PeerLost("nobody there")
            return frame


class RaisesWhenTheTimeIsOver(Sound):
    class end(SoundEnd):
        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            if frame is None and timeout == 0.05:
                raise TimeoutError
            return frame


class SleepsThroughAFrame(Sound):
    class end(SoundEnd):
        def recv(self, timeout: float | None = None) -> bytes | None:
            while timeout is None:
                with suppress(TypeError):
                    super().recv()
            return super().recv(timeout)


class SleepsThroughAClose(Sound):
    class end(SoundEnd):
        def recv(self, timeout: float | None = None) -> bytes | None:
            try:
                return super().recv(timeout)
            except PeerLost:
                if timeout is None:
                    return None
                raise


class LosesWhatHadArrived(Sound):
    """When its peer is gone, the last frames go with it."""

    class end(SoundEnd):
        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            if frame == b"99":
                return super().recv(timeout)
            return frame


class SendsToNobody(Sound):
    class end(SoundEnd):
        def send(self, frame: bytes) -> None:
            with suppress(PeerLost):
                super().send(frame)


class ClosesOnce(Sound):
    class end(SoundEnd):
        closed = False

        def close(self) -> None:
            assert not self.closed
            self.closed = True
            super().close()


class ClosesOnlyWhatHasMet(Sound):
    class end(SoundEnd):
        met = False

        def recv(self, timeout: float | None = None) -> bytes | None:
            frame = super().recv(timeout)
            self.met |= frame is not None
            return frame

        def close(self) -> None:
            assert self.met
            super().close()


class WaitsForTheFirstChannel(Sound):
    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        return super().wait(channels[:1], timeout)


class SeesALossOnce(Sound):
    end = Holding

    def __init__(self, settings: None, *, folder: Path) -> None:
        super().__init__(settings, folder=folder)
        self.seen: set[int] = set()

    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        fresh = [channel for channel in channels if id(channel) not in self.seen]
        held = any(channel.held for channel in fresh if isinstance(channel, Holding))
        found = held or super().wait(fresh, timeout)
        for channel in channels:
            try:
                frame = channel.recv(0)
            except PeerLost:
                self.seen.add(id(channel))
            else:
                if frame is not None and isinstance(channel, Holding):
                    channel.held.append(frame)
        return found


class ForgetsItsChannels(Sound):
    def close(self) -> None:
        pass


class LeavesAFile(Sound):
    def close(self) -> None:
        super().close()
        (self.folder / "left").touch()


# --------------------------------------------------------------------------------------------- the asynchronous end


class SendsNothingAsynchronously(Sound):
    class async_end(SoundAsyncEnd):
        async def send(self, frame: bytes) -> None:
            pass


class MissesAFrameBeforeASend(Sound):
    class async_end(SoundAsyncEnd):
        async def recv(self) -> bytes:
            sent = self.sent
            frame = await super().recv()
            return frame if sent == self.sent else await super().recv()


class LosesThePeerOnce(Sound):
    """Who receives again waits for ever."""

    class async_end(SoundAsyncEnd):
        lost = closed = False

        async def recv(self) -> bytes:
            if self.lost and not self.closed:
                await asyncio.Event().wait()
            try:
                return await super().recv()
            except PeerLost:
                self.lost = True
                raise

        def close(self) -> None:
            self.closed = True
            super().close()


class ReceivesOnAlthoughClosed(Sound):
    class async_end(SoundAsyncEnd):
        closed = False

        async def recv(self) -> bytes:
            try:
                return await super().recv()
            except PeerLost:
                if self.closed:
                    await asyncio.Event().wait()
                raise

        def close(self) -> None:
            self.closed = True
            super().close()


class TakesAFrameAlthoughCancelled(Sound):
    class async_end(SoundAsyncEnd):
        cancelled = False

        async def recv(self) -> bytes:
            try:
                frame = await super().recv()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            return await super().recv() if self.cancelled else frame
