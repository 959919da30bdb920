"""A peer process that is killed with SIGKILL is noticed within a second, after the frames it had sent."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sgframe.assembly.choice import Choice
from sgframe.assembly.providers import Seam
from sgframe.errors import PeerLost
from sgframe.interfaces.transport import Channel, Transport

PEER = """
import sys, time
from pathlib import Path
import msgspec
from sgframe.assembly.choice import Choice

choice, folder, role = sys.argv[1:]
transport = msgspec.json.decode(choice, type=Choice).build(folder=Path(folder))
channel = getattr(transport, role)("channel")
channel.recv()
for n in range(10):
    channel.send(b"%d" % n)
channel.recv()
channel.send(b"ready")
time.sleep(60)
"""
StartPeer = Callable[[str], subprocess.Popen[bytes]]


def chosen(name: str, target: str, settings_model: str, **settings: Any) -> Choice:
    return Choice(Seam.TRANSPORT, name, target, settings, settings_model, "test")


ZMQ = "zmq", "sgframe_zmq.transport:ZmqTransport", "sgframe_zmq:ZmqSettings"

pytestmark = pytest.mark.parametrize(
    "choice",
    [chosen(*ZMQ, scheme="ipc"), chosen(*ZMQ, scheme="tcp")],
    ids=["zmq-ipc", "zmq-tcp"],
)
both_roles = pytest.mark.parametrize(("role", "peer_role"), [("listen", "connect"), ("connect", "listen")])


@pytest.fixture
def transport(choice: Choice, short_path: Path) -> Iterator[Transport]:
    transport: Transport = choice.build(folder=short_path)
    yield transport
    transport.close()


@pytest.fixture
def start_peer(choice: Choice, short_path: Path) -> Iterator[StartPeer]:
    peers = []

    def start(role: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        arguments = [msgspec.json.encode(choice).decode(), str(short_path), role]
        peers.append(subprocess.Popen([sys.executable, "-c", PEER, *arguments], env=environment))
        return peers[-1]

    yield start
    for peer in peers:
        peer.kill()
        peer.wait()


def meet(channel: Channel) -> None:
    """Exchange frames with the peer until ten of its frames lie here unread."""
    channel.send(b"ten, please")
    channel.send(b"and a word when you have sent them")


@both_roles
def test_a_killed_peer_is_lost_within_a_second(
    transport: Transport, start_peer: StartPeer, role: str, peer_role: str
) -> None:
    peer = start_peer(peer_role)
    channel: Channel = getattr(transport, role)("channel")
    meet(channel)
    assert [channel.recv(20) for _ in range(11)] == [b"%d" % n for n in range(10)] + [b"ready"]
    peer.kill()
    killed = time.monotonic()
    with pytest.raises(PeerLost):
        channel.recv(5)
    assert time.monotonic() - killed < 1


@both_roles
def test_what_a_killed_peer_had_sent_is_still_delivered(
    transport: Transport, start_peer: StartPeer, role: str, peer_role: str
) -> None:
    peer = start_peer(peer_role)
    channel: Channel = getattr(transport, role)("channel")
    meet(channel)
    assert channel.recv(20) == b"0"
    time.sleep(0.2)
    peer.kill()
    peer.wait()
    assert transport.wait([channel], 5)
    assert [channel.recv(5) for _ in range(10)] == [b"%d" % n for n in range(1, 10)] + [b"ready"]
    with pytest.raises(PeerLost):
        channel.recv(1)
    with pytest.raises(PeerLost):
        channel.send(b"to nobody")


@both_roles
def test_wait_wakes_within_a_second_of_the_kill(
    transport: Transport, start_peer: StartPeer, role: str, peer_role: str
) -> None:
    peer = start_peer(peer_role)
    channel: Channel = getattr(transport, role)("channel")
    idle = transport.listen("idle")
    meet(channel)
    for _ in range(11):
        channel.recv(20)
    peer.kill()
    assert transport.wait([idle, channel], 1)


@both_roles
def test_a_transport_closes_and_leaves_nothing_after_its_peer_was_killed(
    transport: Transport, start_peer: StartPeer, short_path: Path, role: str, peer_role: str
) -> None:
    peer = start_peer(peer_role)
    channel: Channel = getattr(transport, role)("channel")
    meet(channel)
    assert channel.recv(20) == b"0"
    peer.kill()
    peer.wait()
    started = time.monotonic()
    transport.close()
    assert time.monotonic() - started < 3
    assert list(short_path.iterdir()) == []
