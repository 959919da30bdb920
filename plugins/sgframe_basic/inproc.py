"""Channels between threads of one process. A frame is handed over as the object it is.

Owns the table in which two transports with the same folder find each other. A thread that ends without closing its
channel is not noticed: whoever runs it closes.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from sgframe.errors import PeerLost
from sgframe.interfaces.transport import AsyncChannel, Channel, Transport

LISTENER, CONNECTOR = 0, 1


class _Side:
    """One side of a channel: its inbox, how to wake who sleeps on it (None until it is opened), if it has closed."""

    def __init__(self) -> None:
        self.inbox: deque[bytes] = deque()
        self.wake: Callable[[], None] | None = None
        self.closed = False


_open: dict[tuple[Path, str], tuple[_Side, _Side]] = {}
"""Both sides of every channel that has an open end, by folder and name."""
_open_lock = threading.Lock()


class _End(ABC):
    """What the two kinds of ends share; nothing in it sleeps."""

    def __init__(self, folder: Path, name: str, side: int) -> None:
        self._key = (folder, name)
        with _open_lock:
            sides = _open.setdefault(self._key, (_Side(), _Side()))
            self._own, self._peer = sides[side], sides[1 - side]
            if self._own.wake is not None:
                raise ValueError(
                    f"this end of channel {name!r} is taken; a channel has two ends, and its name is unique"
                )
            self._own.wake = self._wake

    def ready(self) -> bool:
        """Whether ``_take`` would give a frame or raise."""
        return bool(self._own.inbox) or self._is_over()

    def close(self) -> None:
        with _open_lock:
            if self._own.closed:
                return
            self._own.closed = True
            if self._peer.closed or self._peer.wake is None:
                del _open[self._key]
        self._wake_peer()

    @abstractmethod
    def _wake(self) -> None:
        """Let who sleeps on this end look again. Called by the peer's thread."""

    def _put(self, frame: bytes) -> None:
        if self._is_over():
            raise self._peer_lost()
        self._peer.inbox.append(frame)
        self._wake_peer()

    def _take(self) -> bytes | None:
        over = self._is_over()  # looked at first: the peer may send and then close between two looks
        if self._own.inbox:
            return self._own.inbox.popleft()
        if over:
            raise self._peer_lost()
        return None

    def _is_over(self) -> bool:
        return self._own.closed or self._peer.closed

    def _wake_peer(self) -> None:
        if self._peer.wake is not None:
            self._peer.wake()

    def _peer_lost(self) -> PeerLost:
        closer = "this" if self._own.closed else "the other"
        return PeerLost(f"{closer} end of channel {self._key[1]!r} has closed")


class InprocChannel(_End, Channel):
    """The synchronous end. Who waits for it sleeps on ``bell``."""

    def __init__(self, folder: Path, name: str, side: int, bell: threading.Condition) -> None:
        self._bell = bell
        super().__init__(folder, name, side)

    def send(self, frame: bytes) -> None:
        self._put(frame)

    def recv(self, timeout: float | None = None) -> bytes | None:
        frame = self._take()
        if frame is None and timeout != 0:
            with self._bell:
                self._bell.wait_for(self.ready, timeout)
            frame = self._take()
        return frame

    def _wake(self) -> None:
        with self._bell:
            self._bell.notify_all()


class InprocAsyncChannel(_End, AsyncChannel):
    """The same end for an event loop. A loop that has ended counts as closed once the peer next sends."""

    def __init__(self, folder: Path, name: str, side: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        super().__init__(folder, name, side)

    async def send(self, frame: bytes) -> None:
        self._put(frame)

    async def recv(self) -> bytes:
        while (frame := self._take()) is None:
            self._news.clear()
            if not self.ready():
                await self._news.wait()
        return frame

    def close(self) -> None:
        super().close()
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the loop is closed
            super().close()


class InprocTransport(Transport):
    """Has no settings. Its channels may be used by several threads, each channel by one."""

    in_process = True

    def __init__(self, settings: Any, *, folder: Path) -> None:
        self._folder = folder
        self._bell = threading.Condition()
        self._ends: list[_End] = []

    def listen(self, name: str) -> Channel:
        return self._opened(InprocChannel(self._folder, name, LISTENER, self._bell))

    def connect(self, name: str) -> Channel:
        return self._opened(InprocChannel(self._folder, name, CONNECTOR, self._bell))

    def listen_async(self, name: str) -> AsyncChannel:
        channel = InprocAsyncChannel(self._folder, name, LISTENER)
        self._ends.append(channel)
        return channel

    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        ends = cast("Sequence[InprocChannel]", channels)
        with self._bell:
            return self._bell.wait_for(lambda: any(end.ready() for end in ends), timeout)

    def close(self) -> None:
        for end in self._ends:
            end.close()

    def _opened(self, channel: InprocChannel) -> InprocChannel:
        self._ends.append(channel)
        return channel
