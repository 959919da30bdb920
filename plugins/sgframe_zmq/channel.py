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
from collections import deque
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
LOOK_INTERVAL = 0.05
"""Seconds between two looks for news of the connection, at most, by one who only sends."""
_NEVER_MS = 24 * 3600 * 1000


class ZmqChannel(Channel):
    """The synchronous end. ``socket`` gives frames and ``monitor`` news of the connection, which ``lost`` says is gone."""

    def __init__(self, context: zmq.SyncContext, address: Address, *, listens: bool) -> None:
        self._address = address
        self._listens = listens
        self.socket = context.socket(zmq.PAIR)
        # No bound on the queues: it could block both ends in send. The scheduler's tables bound what is under way.
        self.socket.set_hwm(0)
        self.socket.linger = int(LINGER * 1000)
        # Not -1: libzmq then drops, with the connection, frames that had arrived but were not yet received.
        self.socket.reconnect_ivl = _NEVER_MS
        self.monitor = self.socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED
            | zmq.EVENT_CONNECTED
            | zmq.EVENT_CONNECT_RETRIED
            | zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_DISCONNECTED
        )
        if listens:
            address.bind(self.socket)
        self._poller = zmq.Poller()
        self._poller.register(self.socket, zmq.POLLIN)
        self._poller.register(self.monitor, zmq.POLLIN)
        self._connection = -1
        self.lost = False
        self._look_at = 0.0
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

    def send(self, frame: bytes) -> None:
        if not self.met:
            with self._queue_lock:
                if not self.met:
                    self._queued.append(frame)
                    return
        if (now := time.monotonic()) >= self._look_at:
            self._look_at = now + LOOK_INTERVAL
            self.hear_news()
        if self.lost:
            raise self._peer_lost()
        try:
            self.socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:  # a queue without bound refuses only when there is no peer any more
            self.lost = True
            raise self._peer_lost() from None

    def recv(self, timeout: float | None = None) -> bytes | None:
        if not (self.met or self._met.wait(timeout)):
            return None
        deadline = time.monotonic() + timeout if timeout else 0.0
        while not self.lost:
            left = milliseconds(deadline - time.monotonic()) if timeout else None if timeout is None else 0
            ready = self._poller.poll(left)
            if not ready:
                return None
            if ready[0][0] is self.monitor:  # and there is no frame, which would come first
                self.hear_news()
            else:
                return self._pull()
        if self.socket.poll(0):  # what had arrived before the loss
            return self._pull()
        raise self._peer_lost()

    def hear_news(self) -> bool:
        """Take in what is new of the connection; whether it is lost."""
        while not self.lost and self.monitor.poll(0):
            news = recv_monitor_message(self.monitor)
            self.lost = news["event"] == zmq.EVENT_DISCONNECTED and news["value"] == self._connection
        return self.lost

    def close(self) -> None:
        if self.socket.closed:
            return
        if self._queued:
            self._met.wait(LINGER)
        self._closing = True
        self._meeting.join()
        if self.hear_news():
            self.socket.linger = 0
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close()

    def _pull(self) -> bytes:
        return self.socket.recv(zmq.NOBLOCK)

    def _peer_lost(self) -> PeerLost:
        return PeerLost(f"the other end of channel {self._address.path.stem!r} is gone: it closed, or its process died")

    def _meet(self) -> None:
        """The meeting thread: find the peer, send what is queued, hand the sockets to the owner."""
        reachable = self._listens
        while not (self._closing or self._has_come()):
            if not reachable:
                reachable = self._address.dial(self.socket)
            self.monitor.poll(int(MEETING_POLL * 1000))
        if self._listens:
            self._address.remove()
        with self._queue_lock:
            # The poll is needed even with nothing to send: in it the socket takes note of its peer.
            if self.socket.poll(0, zmq.POLLOUT):
                with suppress(zmq.Again):  # gone already, as the next send or recv will find
                    for frame in self._queued:
                        self.socket.send(frame, zmq.NOBLOCK)
            self._queued.clear()
            self._met.set()

    def _has_come(self) -> bool:
        """Whether the meeting is over: the peer has shaken hands or, for a connector, was there and is gone again."""
        while self.monitor.poll(0):
            news = recv_monitor_message(self.monitor)
            if news["event"] in (zmq.EVENT_ACCEPTED, zmq.EVENT_CONNECTED):
                self._connection = news["value"]
            elif news["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return True
            elif not self._listens:
                self.lost = True
                return True
        return False


class ZmqAsyncChannel(AsyncChannel):
    """The same end for an event loop.

    The descriptors of ZeroMQ sockets tell only that something happened since the last call on the socket, so each time all
    that has arrived is taken in, and again after a send, which may have swallowed such news.
    """

    def __init__(self, channel: ZmqChannel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._watched: list[int] = []
        self._lost: PeerLost | None = None

    async def send(self, frame: bytes) -> None:
        self._channel.send(frame)
        if self._watched:
            self._look()

    async def recv(self) -> bytes:
        while not self._arrived:
            if self._lost is not None:
                raise self._lost
            if not self._channel.met:
                await asyncio.sleep(MEETING_POLL)
            elif not self._watched:
                self._watch()
            else:
                self._news.clear()
                await self._news.wait()
        return self._arrived.popleft()

    def close(self) -> None:
        self._end(PeerLost("this end of the channel is closed"))
        self._arrived.clear()
        self._channel.close()

    def _watch(self) -> None:
        self._watched = [self._channel.socket.fileno(), self._channel.monitor.fileno()]
        for descriptor in self._watched:
            self._loop.add_reader(descriptor, self._look)
        self._look()

    def _look(self) -> None:
        """Take in all that has arrived."""
        try:
            while (frame := self._channel.recv(0)) is not None:
                self._arrived.append(frame)
        except PeerLost as lost:
            self._end(lost)
        if self._arrived:
            self._news.set()

    def _end(self, lost: PeerLost) -> None:
        self._lost = lost
        self._news.set()
        while self._watched:
            self._loop.remove_reader(self._watched.pop())


def milliseconds(seconds: float) -> int:
    """Rounded up, and not negative."""
    return max(0, math.ceil(seconds * 1000))
