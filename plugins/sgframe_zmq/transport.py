"""Channels over ZeroMQ, between processes of one machine. Owns the context and every channel made with it.

Frames are bytes, never pickled objects. A transport may be shared by threads; a channel is used by one. The last frames
of a closed channel leave in the background; closing the transport waits until they have, for at most a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import zmq

from sgframe.interfaces.transport import AsyncChannel, Channel, Transport
from sgframe_zmq import ZmqSettings
from sgframe_zmq.address import IpcAddress, TcpAddress
from sgframe_zmq.channel import MEETING_POLL, ZmqAsyncChannel, ZmqChannel, milliseconds


class ZmqTransport(Transport):
    """Raises ConfigError, when a channel is made, if ``folder`` is too long a path for unix sockets."""

    def __init__(self, settings: ZmqSettings, *, folder: Path) -> None:
        self._folder = folder
        self._address = IpcAddress if settings.scheme == "ipc" else TcpAddress
        self._context = zmq.Context()
        self._channels: list[Channel | AsyncChannel] = []
        self._pollers: dict[tuple[ZmqChannel, ...], zmq.Poller] = {}

    def listen(self, name: str) -> Channel:
        return self._end(name, listens=True)

    def connect(self, name: str) -> Channel:
        return self._end(name, listens=False)

    def listen_async(self, name: str) -> AsyncChannel:
        channel = ZmqAsyncChannel(self._end(name, listens=True))
        self._channels[-1] = channel
        return channel

    def wait(self, channels: Sequence[Channel], timeout: float) -> bool:
        ends = cast("Sequence[ZmqChannel]", channels)
        deadline = time.monotonic() + timeout
        while not any(end.lost for end in ends):
            met = tuple([end for end in ends if end.met])
            left = deadline - time.monotonic()
            if len(met) < len(ends):
                left = min(left, MEETING_POLL)
            ready = self._poller(met).poll(milliseconds(left))
            if any(socket is end.socket for socket, _ in ready for end in met):
                return True
            if ready:
                for end in met:
                    end.hear_news()
            elif time.monotonic() >= deadline:
                return False
        return True

    def close(self) -> None:
        for channel in self._channels:
            channel.close()
        self._context.term()

    def _poller(self, ends: tuple[ZmqChannel, ...]) -> zmq.Poller:
        """Kept for the next time: whoever waits waits for the same ones again."""
        if ends not in self._pollers:
            self._pollers[ends] = poller = zmq.Poller()
            for end in ends:
                poller.register(end.socket, zmq.POLLIN)
                poller.register(end.monitor, zmq.POLLIN)
        return self._pollers[ends]

    def _end(self, name: str, *, listens: bool) -> ZmqChannel:
        channel = ZmqChannel(self._context, self._address(self._folder, name), listens=listens)
        self._channels.append(channel)
        return channel
