"""What the lifelines of two ranks say to each other, and the connection between them. Knows nothing of what it means."""

from __future__ import annotations

import contextlib
import socket

import msgspec

from sgframe_torch.parallel.digest import History, Report

MAX_FRAME = 1 << 24
SEND_TIMEOUT = 3.0
"""Seconds until a peer that takes in nothing counts as gone."""


class Hello(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The first message of a rank to rank 0, which answers with its own once all are there. ``secret`` proves that the
    rank belongs to this group; ``place`` is for people."""

    rank: int
    secret: str
    place: str


class Beat(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A sign of life: where the rank is (see Pace), and what its digest reports since the last."""

    step: int
    entered: int
    reports: list[Report]


class TellHistory(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Answer with your History: you have executed something else."""


class Verdict(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Rank 0 gives up, for this reason; so must all."""

    reason: str


class Goodbye(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """This rank ends: as it should, or with a ``failure``."""

    failure: str


WireMessage = Hello | Beat | TellHistory | History | Verdict | Goodbye

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WireMessage).decode


class Wire:
    """A TCP connection that carries messages, each behind its length. Used by one thread."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: WireMessage) -> None:
        """Raises OSError when the peer is gone."""
        frame = _encode(message)
        self._socket.settimeout(SEND_TIMEOUT)
        self._socket.sendall(len(frame).to_bytes(4, "little") + frame)

    def receive(self, timeout: float) -> list[WireMessage]:
        """The messages that are complete with what arrives next, within ``timeout`` seconds. Raises OSError or EOFError
        when the peer is gone, and ValueError when it speaks another language."""
        self._socket.settimeout(timeout)
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._rest += data
        messages = []
        while len(self._rest) >= 4:
            end = 4 + int.from_bytes(self._rest[:4], "little")
            if end > MAX_FRAME:
                raise ValueError(f"a frame of {end} bytes")
            if len(self._rest) < end:
                break
            messages.append(_decode(self._rest[4:end]))
            self._rest = self._rest[end:]
        return messages

    def finish(self) -> None:
        """Send nothing more; what was sent still arrives."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
