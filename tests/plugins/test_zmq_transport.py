"""The zmq transport: the contract on both schemes, and what it adds."""

import socket
import stat
from pathlib import Path
from typing import Literal

import pytest

from sgframe.errors import ConfigError, PeerLost
from sgframe.testing.transport import PATIENCE, Sides, TransportContract, greet
from sgframe_zmq import ZmqSettings, sgframe_transports
from sgframe_zmq.address import MAX_SOCKET_PATH
from sgframe_zmq.transport import ZmqTransport


class TestIpc(TransportContract):
    def make(self, folder: Path) -> ZmqTransport:
        return ZmqTransport(ZmqSettings(), folder=folder)

    def test_the_listener_is_a_unix_socket_until_the_ends_have_met(self, sides: Sides, folder: Path) -> None:
        listener = sides[0].listen("channel")
        assert stat.S_ISSOCK((folder / "channel.sock").stat().st_mode)
        greet(listener, sides[1].connect("channel"))
        assert list(folder.iterdir()) == []

    def test_a_path_that_no_unix_socket_can_have_is_named_with_the_remedy(self, tmp_path: Path) -> None:
        folder = tmp_path / ("x" * 120)
        folder.mkdir()
        transport = self.make(folder)
        for opens in (transport.listen, transport.connect):
            with pytest.raises(ConfigError, match=r"x{120}/channel\.sock has \d+ bytes, at most 107 .* TMPDIR"):
                opens("channel")
        transport.close()

    def test_the_longest_possible_path_works(self, folder: Path) -> None:
        name = "n" * (MAX_SOCKET_PATH - len(str(folder / ".sock")))
        near, far = self.make(folder), self.make(folder)
        greet(near.listen(name), far.connect(name))
        near.close()
        far.close()


class TestTcp(TransportContract):
    def make(self, folder: Path) -> ZmqTransport:
        return ZmqTransport(ZmqSettings(scheme="tcp"), folder=folder)

    def test_the_port_stands_in_a_file_until_the_ends_have_met(self, sides: Sides, folder: Path) -> None:
        listener = sides[0].listen("channel")
        assert 0 < int((folder / "channel.port").read_text()) < 65536
        greet(listener, sides[1].connect("channel"))
        assert list(folder.iterdir()) == []

    def test_a_stranger_who_knocks_and_goes_is_not_the_peer(self, sides: Sides, folder: Path) -> None:
        listener = sides[0].listen("channel")
        knock(int((folder / "channel.port").read_text()))
        assert listener.recv(0.05) is None
        greet(listener, sides[1].connect("channel"))

    def test_a_stranger_who_knocks_later_ends_nothing(self, sides: Sides, folder: Path) -> None:
        listener = sides[0].listen("channel")
        port = int((folder / "channel.port").read_text())
        connector = sides[1].connect("channel")
        greet(listener, connector)
        knock(port)
        assert listener.recv(0.05) is None
        greet(listener, connector)


@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
def test_a_lost_channel_takes_no_second_peer(scheme: Literal["ipc", "tcp"], tmp_path: Path) -> None:
    transports = [ZmqTransport(ZmqSettings(scheme=scheme), folder=tmp_path) for _ in range(3)]
    listener, first = transports[0].listen("c"), transports[1].connect("c")
    greet(listener, first)
    first.close()
    second = transports[2].connect("c")
    second.send(b"me too")
    with pytest.raises(PeerLost):
        listener.recv(PATIENCE)
    assert second.recv(0.05) is None
    for transport in transports:
        transport.close()


def test_the_plugin_offers_it_with_its_settings() -> None:
    (provider,) = sgframe_transports()
    assert (provider.name, provider.target) == ("zmq", "sgframe_zmq.transport:ZmqTransport")
    assert provider.settings().model_dump() == {"scheme": "ipc"}


def knock(port: int) -> None:
    """Connect to ``port`` as no ZeroMQ peer would, and go."""
    with socket.create_connection(("127.0.0.1", port)):
        pass
