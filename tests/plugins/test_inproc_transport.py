"""The inproc transport: the contract, and what holds for threads alone."""

import asyncio
from pathlib import Path

import pytest

from sgframe.errors import PeerLost
from sgframe.testing.transport import PATIENCE, Sides, TransportContract, greet
from sgframe_basic import inproc
from sgframe_basic.inproc import InprocTransport


class TestInproc(TransportContract):
    def make(self, folder: Path) -> InprocTransport:
        return InprocTransport(None, folder=folder)

    def test_both_ends_must_live_in_one_process(self) -> None:
        assert InprocTransport.in_process

    def test_the_same_name_in_another_folder_is_another_channel(self, sides: Sides, tmp_path: Path) -> None:
        elsewhere = self.make(tmp_path)
        stranger = elsewhere.connect("channel")
        stranger.send(b"not for you")
        greet(sides[0].listen("channel"), sides[1].connect("channel"))
        elsewhere.close()

    def test_a_frame_is_handed_over_without_a_copy(self, sides: Sides) -> None:
        listener, connector = sides[0].listen("channel"), sides[1].connect("channel")
        frame = bytes(1000)
        connector.send(frame)
        assert listener.recv(0) is frame

    def test_an_end_cannot_be_opened_twice(self, sides: Sides) -> None:
        sides[0].listen("channel")
        with pytest.raises(ValueError, match="end of channel 'channel' is taken"):
            sides[1].listen("channel")

    def test_a_channel_whose_two_ends_have_closed_is_forgotten(self, sides: Sides) -> None:
        for _ in range(2):
            listener, connector = sides[0].listen("channel"), sides[1].connect("channel")
            greet(listener, connector)
            listener.close()
            connector.close()
            sides[0].listen("alone").close()
            assert not inproc._open

    def test_an_event_loop_that_ended_is_a_lost_peer(self, sides: Sides) -> None:
        connector = sides[1].connect("channel")

        async def listen() -> None:
            sides[0].listen_async("channel")

        asyncio.run(listen())
        with pytest.raises(PeerLost):
            for _ in range(2):
                connector.send(b"to nobody")
        with pytest.raises(PeerLost):
            connector.recv(PATIENCE)
