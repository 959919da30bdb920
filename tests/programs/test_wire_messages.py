"""The messages between a program's client and its server: what arrives, what is refused, what is no message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgframe import errors
from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.messages import Logprobs, ints
from sgframe.sampling import SamplingParams
from sgframe_programs import wire
from sgframe_programs.parts import Begin, Branch, Cost, End, Generated, Output, Part, Selected, Text

PARTS: list[Part] = [Text("Hé"), Begin("user"), End(), Branch(3)]
PARAMS = SamplingParams(max_tokens=3, stop=("\n",), logit_bias={7: -1.5}, constraint=Constraint("regex", "a+"))
OUTPUT = Output("a", [97], "stop", "\n", [Logprobs(97, -0.25, ints([97, 98]), [-0.25, -2.0])])
COST = Cost(9, None, 1)

CLIENT = [
    wire.Hello(wire.PROTOCOL, "salt"),
    wire.Open(1),
    wire.Fork(1, [2, 3]),
    wire.Discard([1, 2]),
    wire.Cancel(4),
    wire.Extend(1, 2, PARTS),
    wire.Generate(1, 2, PARTS, PARAMS, True),
    wire.Select(1, 2, [], ["a", "ab"], "greedy_token"),
    wire.Prepare(1, Constraint("choice", '["a"]')),
]
SERVER = [
    wire.Welcome(1, "m", 2048),
    wire.Refused("old"),
    wire.NotOpened([2, 3], wire.Fault("Overloaded", "full")),
    wire.Failed(1, wire.Fault("RequestError", "no", "stop", "c")),
    wire.Piece(1, "a"),
    wire.Extended(1, "Hé"),
    wire.GenerateAnswer(1, Generated([OUTPUT], COST, "x", ("approximately",))),
    wire.SelectAnswer(1, Selected(0, [-1.0], [[97]], [[-1.0]], COST, "x", [[-2.0]])),
    wire.Prepared(1),
]


@pytest.mark.parametrize("message", CLIENT, ids=lambda message: type(message).__name__)
def test_what_a_client_says_arrives(message: Any) -> None:
    assert wire.read_client(wire.write(message)) == message


@pytest.mark.parametrize("message", SERVER, ids=lambda message: type(message).__name__)
def test_what_a_server_says_arrives(message: Any) -> None:
    assert wire.read_server(wire.write(message)) == message


@pytest.mark.parametrize(
    "error",
    [
        errors.RequestError("no", param="stop", code="bad"),
        errors.ContextLengthExceeded("long", param="prompt"),
        errors.Overloaded("full"),
        errors.EngineDead("worker-0 was killed"),
        errors.RequestFailed("not finite"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_what_it_was(error: Any) -> None:
    back = wire.error_of(wire.fault_of(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_an_error_of_a_class_that_the_client_does_not_know_comes_back_as_the_nearest() -> None:
    class Odd(errors.Overloaded): ...

    assert wire.fault_of(Odd("x")).kind == "Overloaded"
    assert wire.fault_of(errors.PeerLost("x")).kind == "RequestFailed"
    assert type(wire.error_of(wire.Fault("OfTomorrow", "x"))) is errors.RequestFailed


def test_an_errors_message_can_always_be_sent() -> None:
    fault = wire.fault_of(RequestError("\ud800" + "x" * 5000))
    assert fault.message == "?" + "x" * (wire.MAX_REASON - 1) + " …"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (wire.Extend(1, 1, [Text("a\udc00")]), "no UTF-8: it holds '\\\\udc00'"),
        (wire.Generate(1, 1, [], SamplingParams(seed=2**70)), "cannot be sent: .* ints"),
        (wire.Generate(1, 1, [], SamplingParams(stop=object())), "cannot be sent: object"),  # type: ignore[arg-type]
        (
            wire.Extend(1, 1, [Text("x" * wire.MAX_FRAME)]),
            "an? Extend of 335.* bytes is too large, the limit is 33554432",
        ),
    ],
    ids=["surrogate", "number", "type", "size"],
)
def test_what_cannot_be_sent_is_refused_before(message: Any, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        wire.write(message)


@pytest.mark.parametrize(
    "fields",
    [
        ["Extend", 7, 1, "no list"],
        ["Generate", 7, 1, [], {"temperature": "hot"}, False],
        ["Select", 7, 1, [], ["a"], "no such method"],
        ["Prepare", 7, {"kind": "regex"}],
        ["Extend", 7, 1, [{"type": "Picture"}]],
    ],
    ids=lambda fields: fields[0],
)
def test_a_call_that_cannot_be_read_is_known_by_its_number(fields: list[Any]) -> None:
    with pytest.raises(wire.Unreadable) as raised:
        wire.read_client(msgspec.msgpack.encode(fields))
    assert raised.value.call == 7


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x80",
        b"\x91" * 100_000,
        b"\xa1\xff",
        *map(msgspec.msgpack.encode, (["Nonsense"], ["Open", "1"], ["Fork", 7])),
    ],
)
def test_what_is_no_message_is_unreadable(frame: bytes) -> None:
    for read in (wire.read_client, wire.read_server):
        with pytest.raises(wire.Unreadable) as raised:
            read(frame)
        assert raised.value.call is None


@given(st.sampled_from(CLIENT + SERVER), st.integers(0, 200), st.binary(max_size=8))
def test_a_garbled_message_is_read_or_unreadable(message: Any, place: int, noise: bytes) -> None:
    frame = wire.write(message)
    garbled = frame[:place] + noise + frame[place + len(noise) :]
    for read in (wire.read_client, wire.read_server):
        try:
            assert isinstance(read(garbled), wire.Message)
        except wire.Unreadable as error:
            assert str(error)
