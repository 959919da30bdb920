"""The transport contract catches faults: each transport here has one, and fails the cases named beside it and no other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faulty_transports as transports
import pytest
from contract_cases import cases_of, fails

from sgframe.interfaces.transport import Transport
from sgframe.testing import TransportContract, transport

MUTANTS: dict[type[transports.Sound], set[str]] = {
    transports.CutsLongFrames: {"test_a_frame_of_64_mib_passes"},
    transports.LosesAFrame: {"test_frames_arrive_whole_in_order_and_once"},
    transports.SwapsTwoFrames: {"test_frames_arrive_whole_in_order_and_once"},
    transports.DropsEmptyFrames: {
        "test_an_empty_frame_is_a_frame",
        "test_frames_arrive_whole_in_order_and_once",
    },
    transports.SpeaksOneWayAtATime: {"test_the_directions_are_independent"},
    transports.MixesUpChannels: {"test_channels_of_one_folder_do_not_mix"},
    transports.LosesWhatIsSentToNobodyYet: {"test_what_is_sent_before_the_peer_comes_arrives_when_it_has_come"},
    transports.TakesAnAbsentPeerForLost: {"test_a_peer_that_has_not_come_is_not_lost"},
    transports.RaisesWhenTheTimeIsOver: {"test_recv_gives_none_when_the_time_is_over"},
    transports.SleepsThroughAFrame: {"test_a_sleeping_recv_wakes_for_a_frame"},
    transports.SleepsThroughAClose: {"test_a_sleeping_recv_wakes_when_the_peer_closes"},
    transports.LosesWhatHadArrived: {"test_what_had_arrived_comes_before_the_loss"},
    transports.SendsToNobody: {"test_send_to_a_lost_peer_raises_within_a_second"},
    transports.ClosesOnce: {"test_a_close_without_a_peer_returns_soon_and_a_second_does_nothing"},
    transports.ClosesOnlyWhatHasMet: {"test_an_end_whose_peer_never_came_can_be_closed"},
    transports.WaitsForTheFirstChannel: {
        "test_wait_sees_a_lost_peer_each_time",
        "test_wait_sees_the_channel_that_has_a_frame",
    },
    transports.SeesALossOnce: {"test_wait_sees_a_lost_peer_each_time"},
    transports.ForgetsItsChannels: {"test_closing_the_transport_closes_its_channels_and_leaves_nothing"},
    transports.LeavesAFile: {"test_closing_the_transport_closes_its_channels_and_leaves_nothing"},
    transports.SendsNothingAsynchronously: {
        "test_the_asynchronous_end_drains_and_then_loses_its_peer",
        "test_the_asynchronous_end_speaks_with_a_synchronous_one",
    },
    transports.MissesAFrameBeforeASend: {"test_an_asynchronous_recv_does_not_miss_a_frame_that_came_before_a_send"},
    transports.LosesThePeerOnce: {"test_the_asynchronous_end_drains_and_then_loses_its_peer"},
    transports.ReceivesOnAlthoughClosed: {"test_closing_the_asynchronous_end_ends_its_recv_and_is_seen_by_the_peer"},
    transports.TakesAFrameAlthoughCancelled: {"test_a_cancelled_asynchronous_recv_takes_no_frame_with_it"},
}


class Contract(TransportContract):
    def __init__(self, kind: type[transports.Sound]) -> None:
        self.kind = kind

    def make(self, folder: Path) -> Transport:
        return self.kind(None, folder=folder)

    def given(self, names: list[str]) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="t"))
        made: dict[str, Any] = {"folder": folder, "sides": (self.make(folder), self.make(folder))}
        if "ends" in names:
            made["ends"] = self._meet(*made["sides"])
        return {name: made[name] for name in names}

    def _meet(self, near: Transport, far: Transport) -> transport.Ends:
        ends = {"listener": near.listen("channel"), "connector": far.connect("channel")}
        transport.greet(ends["listener"], ends["connector"])
        return ends


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Most faults show in a frame that never comes."""
    monkeypatch.setattr(transport, "PATIENCE", 0.05)
    yield


def failing(kind: type[transports.Sound], cases: list[str]) -> set[str]:
    contract = Contract(kind)
    return {case for case in cases if fails(contract, case, contract.given)}


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_cases(kind: type[transports.Sound]) -> None:
    assert failing(kind, sorted(MUTANTS[kind])) == MUTANTS[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_no_other_case(kind: type[transports.Sound]) -> None:
    assert failing(kind, [case for case in cases_of(Contract) if case not in MUTANTS[kind]]) == set()


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(TransportContract)) == set().union(*MUTANTS.values())


def test_a_sound_transport_fails_nothing() -> None:
    assert failing(transports.Sound, cases_of(Contract)) == set()
