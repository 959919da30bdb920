"""The ends of a channel over ZeroMQ PAIR sockets, and how the death of a peer is seen.

A channel begins with a *meeting*: a thread of its own dials, waits for the handshake (ZMTP 3.1, ZeroMQ RFC 37) and sends
what was queued meanwhile. Until then the sockets are that thread's, afterwards the owner's: two threads never share one.
A peer that ends, also by SIGKILL, closes its connection, which libzmq's socket monitor reports as DISCONNECTED. A channel
has one peer in its life: nothing reconnects, and the address is taken away when the two have met.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import zmq
from zmq.utils.monitor import recv_monitor_message

from sgframe.errors import PeerLost
from sgframe.interfaces.transport import AsyncChannel, Channel
from sgframe_zmq.address import Address

LINGER = 1.0
"""Seconds that a close may take to send what is queued."""
MEETING_POLL = 0.01
"""Seconds between two looks for a peer that has not come yet."""
_NEVER_MS = 24 * 3600 * 1000


class ZmqChannel(Channel):
    """The synchronous end."""

    def __init__(self, context: zmq.SyncContext, address: Address, *, listens: bool) -> None:
        self._address = address
        self._listens = listens
        self._socket = context.socket(zmq.PAIR)
        # No bound on the queues: it could block both ends in send. The scheduler's tables bound what is under way.
        self._socket.set_hwm(0)
        self._socket.linger = int(LINGER * 1000)
        # Not -1: libzmq then drops, with the connection, frames that had arrived but were not yet received.
        self._socket.reconnect_ivl = _NEVER_MS
        self._monitor = self._socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED
            | zmq.EVENT_CONNECTED
            | zmq.EVENT_CONNECT_RETRIED
            | zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
        )
        if listens:
            address.bind(self._socket)
        self._connection = -1
        self._lost = False
        self._closing = False
        self._queued: list[bytes] = []
        self._queue_lock = threading.Lock()
        self._met = threading.Event()
        self._meeting = threading.Thread(target=self._meet, name=f"meet {address.path.stem}", daemon=True)
        self._meeting.start()

    @property
    def met(self) -> bool:
        """Whether the meeting is over, so that the sockets are the owner's."""
        return self._met.is_set()

    @property
    def sockets(self) -> tuple[zmq.SyncSocket, zmq.SyncSocket]:
        """What to poll for input once the ends have met: frames, and news of the connection."""
        return self._socket, self._monitor

    def send(self, frame: bytes) -> None:
        if not self.met:
            with self._queue_lock:
                if not self.met:
                    self._queued.append(frame)
                    return
        if self._is_lost():
            raise self._peer_lost()
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:  # a queue without bound refuses only when there is no peer any more
            self._lost = True
            raise self._peer_lost() from None

    def recv(self, timeout: float | None = None) -> bytes | None:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        if not self._met.wait(timeout):
            return None
        while (frame := self._take()) is None and (left := deadline - time.monotonic()) > 0:
            poll([self], left)
        return frame

    def ready(self) -> bool:
        """Whether ``recv`` would answer at once, with a frame or PeerLost."""
        return self.met and bool(self._socket.poll(0) or self._is_lost())

    def close(self) -> None:
        if self._socket.closed:
            return
        if self._queued:
            self._met.wait(LINGER)
        self._closing = True
        self._meeting.join()
        if self._is_lost():
            self._socket.linger = 0
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close()

    def _take(self) -> bytes | None:
        """The next frame that has arrived. Raises PeerLost when there is none and will be none."""
        frame = self._pull()
        if frame is None and self._is_lost():
            frame = self._pull()  # it may have come between the two looks
            if frame is None:
                raise self._peer_lost()
        return frame

    def _pull(self) -> bytes | None:
        try:
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def _is_lost(self) -> bool:
        while not self._lost and self._monitor.poll(0):
            news = recv_monitor_message(self._monitor)
            self._lost = news["event"] == zmq.EVENT_DISCONNECTED and news["value"] == self._connection
        return self._lost

    def _peer_lost(self) -> PeerLost:
        return PeerLost(f"the other end of channel {self._address.path.stem!r} is gone: it closed, or its process died")

    def _meet(self) -> None:
        """The meeting thread: find the peer, send what is queued, hand the sockets to the owner."""
        reachable = self._listens
        while not (self._closing or self._has_come()):
            if not reachable:
                reachable = self._address.dial(self._socket)
            self._monitor.poll(int(MEETING_POLL * 1000))
        if self._listens:
            self._address.remove()
        with self._queue_lock:
            # The poll is needed even with nothing to send: in it the socket takes note of its peer.
            if self._socket.poll(0, zmq.POLLOUT):
                with suppress(zmq.Again):  # gone already, as the next send or recv will find
                    for frame in self._queued:
                        self._socket.send(frame, zmq.NOBLOCK)
            self._queued.clear()
            self._met.set()

    def _has_come(self) -> bool:
        """Whether the meeting is over: the peer has shaken hands or, for a connector, was there and is gone again."""
        while self._monitor.poll(0):
            news = recv_monitor_message(self._monitor)
            if news["event"] in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
                self._connection = news["value"]
            elif news["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return True
            elif not self._listens:
                self._lost = True
                return True
        return False


class ZmqAsyncChannel(AsyncChannel):
    """The same end for an event loop.

    The descriptors of ZeroMQ sockets tell only that something happened since the last call on the socket, so each wait
    begins with a look, and a send, which may take such news in, wakes the receiver to look again.
    """

    def __init__(self, channel: ZmqChannel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._watched: list[int] = []
        self._closed = False

    async def send(self, frame: bytes) -> None:
        self._channel.send(frame)
        self._news.set()

    async def recv(self) -> bytes:
        while not self._closed:
            self._news.clear()
            frame = self._channel.recv(0)
            if frame is not None:
                return frame
            await self._wait()
        raise PeerLost("this end of the channel is closed")

    def close(self) -> None:
        self._closed = True
        self._news.set()
        self._unwatch()
        self._channel.close()

    async def _wait(self) -> None:
        if not self._channel.met:
            await asyncio.sleep(MEETING_POLL)
            return
        self._watched = [socket.fileno() for socket in self._channel.sockets]
        for descriptor in self._watched:
            self._loop.add_reader(descriptor, self._news.set)
        try:
            await self._news.wait()
        finally:
            self._unwatch()

    def _unwatch(self) -> None:
        while self._watched:
            self._loop.remove_reader(self._watched.pop())


def poll(channels: Sequence[ZmqChannel], timeout: float) -> None:
    """Sleep until something happens on ``channels``, for at most ``timeout`` seconds (``inf``: no bound)."""
    poller = zmq.Poller()
    for channel in channels:
        if channel.met:
            for socket in channel.sockets:
                poller.register(socket, zmq.POLLIN)
        else:
            timeout = min(timeout, MEETING_POLL)
    poller.poll(None if timeout == math.inf else math.ceil(timeout * 1000))
