"""How the lifelines of the ranks find each other: rank 0 listens, the others connect, and none begins before all are
there."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time
from typing import Protocol

import msgspec

from sgframe.errors import ConfigError
from sgframe.interfaces.backend import Ranks
from sgframe_torch.parallel.meeting import split_address
from sgframe_torch.parallel.roll import place
from sgframe_torch.parallel.wire import Hello, Wire

CONTACT_TIMEOUT = 30.0
"""Seconds in which all have to connect, once they have met."""
HELLO_TIMEOUT = 2.0

_KEY = "lifeline"
_REMEDY = "the machines must be able to open connections to each other on any port"


class Store(Protocol):
    """What all ranks can read and write, such as a ``torch.distributed.Store``."""

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes:
        """Waits until somebody has set ``key``."""


class Published(msgspec.Struct, frozen=True):
    """Where rank 0 listens, and what it knows the others by."""

    port: int
    secret: str


def contact(ranks: Ranks, store: Store) -> list[tuple[Wire, Hello]]:
    """Rank 0: the connections to all others, by rank. The others: the one to rank 0. Raises ConfigError."""
    host = split_address(ranks.address)[0] if ranks.nodes > 1 else "127.0.0.1"
    return _gather(ranks, host, store) if ranks.rank == 0 else [_reach(ranks, host, store)]


def _gather(ranks: Ranks, host: str, store: Store) -> list[tuple[Wire, Hello]]:
    secret = secrets.token_hex(16)
    with _listen(host) as server:
        published = Published(server.getsockname()[1], secret)
        store.set(_KEY, msgspec.json.encode(published).decode())
        found = _await_all(ranks, server, secret)
    for wire, _ in found.values():
        with contextlib.suppress(OSError):  # it died since, which the lifeline is about to find out
            wire.send(Hello(0, secret, place()))
    return [found[rank] for rank in sorted(found)]


def _listen(host: str) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, 0), family=family)
    except OSError as error:
        raise ConfigError(f"rank 0 cannot listen at {host} for the lifelines of the other ranks: {error}") from error


def _await_all(ranks: Ranks, server: socket.socket, secret: str) -> dict[int, tuple[Wire, Hello]]:
    found: dict[int, tuple[Wire, Hello]] = {}
    until = time.monotonic() + CONTACT_TIMEOUT
    while missing := [rank for rank in range(1, ranks.size) if rank not in found]:
        server.settimeout(max(until - time.monotonic(), 1e-3))
        try:
            wire = Wire(server.accept()[0])
        except TimeoutError:
            host, port = server.getsockname()[:2]
            raise ConfigError(
                f"of {ranks.size} ranks, {', '.join(map(str, missing))} did not connect to rank 0 at {host}:{port} within "
                f"{CONTACT_TIMEOUT:g} s; {_REMEDY}"
            ) from None
        hello = _hear_hello(wire, secret)
        if hello and hello.rank in missing:
            found[hello.rank] = wire, hello
        else:
            wire.close()
    return found


def _hear_hello(wire: Wire, secret: str) -> Hello | None:
    """What the caller says first, unless it is a stranger."""
    until = time.monotonic() + HELLO_TIMEOUT
    try:
        while not (messages := wire.receive(max(until - time.monotonic(), 1e-3))):
            pass  # a part of it only
    except (OSError, EOFError, ValueError):
        return None
    match messages:
        case [Hello() as hello] if hmac.compare_digest(hello.secret.encode(), secret.encode()):
            return hello
    return None


def _reach(ranks: Ranks, host: str, store: Store) -> tuple[Wire, Hello]:
    who = f"rank {ranks.rank} of {ranks.size}"
    try:
        published = msgspec.json.decode(store.get(_KEY), type=Published)
    except RuntimeError as error:
        raise ConfigError(f"{who} has not heard where rank 0 listens ({error}); see its log for why") from error
    try:
        wire = Wire(socket.create_connection((host, published.port), timeout=CONTACT_TIMEOUT))
        wire.send(Hello(ranks.rank, published.secret, place()))
        while not (messages := wire.receive(2 * CONTACT_TIMEOUT)):
            pass  # a part of it only
    except (OSError, EOFError) as error:
        raise ConfigError(
            f"{who} cannot reach rank 0 at {host}:{published.port} ({error or 'it hung up'}); {_REMEDY}"
        ) from error
    hello = messages[0]
    assert isinstance(hello, Hello)
    return wire, hello
