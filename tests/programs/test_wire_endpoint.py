"""The endpoint of programs, spoken to frame by frame over a real socket; its sessions are scripted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from scripted_session import MOST_STATES, ProgramServer
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from sgframe.constraints import Constraint
from sgframe.sampling import SamplingParams
from sgframe_programs import conversation, endpoint, wire
from sgframe_programs.parts import Text

GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[ProgramServer, str]]:
    server = ProgramServer()
    with server.serving() as url:
        yield server, url


@pytest.fixture
def programs(shared: tuple[ProgramServer, str]) -> ProgramServer:
    shared[0].sessions.clear()
    return shared[0]


@pytest.fixture
def address(shared: tuple[ProgramServer, str], programs: ProgramServer) -> str:
    return shared[1].replace("http", "ws") + wire.PATH


@pytest.fixture
async def silent(address: str) -> AsyncIterator[ClientConnection]:
    """A client that has not said Hello."""
    async with connect(address, compression=None, max_size=None, proxy=None) as websocket:
        yield websocket


@pytest.fixture
async def client(silent: ClientConnection) -> ClientConnection:
    await say(silent, wire.Hello(wire.PROTOCOL))
    assert await hear(silent) == wire.Welcome(wire.PROTOCOL, "scripted", 1000)
    return silent


async def say(websocket: ClientConnection, *messages: Any) -> None:
    for message in messages:
        await websocket.send(wire.write(message))


async def hear(websocket: ClientConnection) -> Any:
    return wire.read_server(await websocket.recv(decode=False))


async def end(websocket: ClientConnection) -> tuple[int, str]:
    """The code and reason with which the server ends the connection."""
    with pytest.raises(ConnectionClosed) as raised:
        while True:
            await websocket.recv()
    assert raised.value.rcvd
    return raised.value.rcvd.code, raised.value.rcvd.reason


async def until(condition: Callable[[], object]) -> None:
    """Wait; the test's time limit is the bound."""
    while not condition():
        await asyncio.sleep(0.002)


def generate(call: int, state: int, text: str, stream: bool = False) -> wire.Generate:
    return wire.Generate(call, state, [Text(text)], GREEDY, stream)


# ------------------------------------------------------------------------------------------ the handshake


@pytest.mark.parametrize(("salt", "namespace"), [(None, ()), ("", (("salt", ""),)), ("x", (("salt", "x"),))])
async def test_the_salt_is_the_sessions_namespace(silent: Any, programs: Any, salt: Any, namespace: Any) -> None:
    await say(silent, wire.Hello(wire.PROTOCOL, salt))
    await hear(silent)
    await until(lambda: programs.sessions)
    assert programs.sessions[0].namespace == namespace


@pytest.mark.parametrize(("version", "older"), [(wire.PROTOCOL - 1, "client"), (wire.PROTOCOL + 1, "server")])
async def test_another_version_is_refused_and_told_who_is_the_older(silent: Any, version: int, older: str) -> None:
    await say(silent, wire.Hello(version))
    refused = await hear(silent)
    assert refused.reason == (
        f"the client speaks version {version} of the protocol, the server {wire.PROTOCOL}; update the {older}"
    )
    assert (await end(silent))[0] == 1008


@pytest.mark.parametrize("first", [wire.write(wire.Open(1)), b"\xff", b""])
async def test_who_does_not_begin_with_hello_is_turned_away(silent: Any, first: bytes, programs: Any) -> None:
    await silent.send(first)
    code, reason = await end(silent)
    assert (code, reason.startswith("the first message must be a Hello")) == (1008, True)
    assert programs.sessions == []


async def test_who_says_nothing_is_turned_away(silent: Any, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(endpoint, "HELLO_TIME", 0.01)
    async with connect(address, proxy=None) as late:
        assert await end(late) == (1008, "no Hello came within 0.01 s")


# ------------------------------------------------------------------------------------------ calls


async def test_states_grow_fork_and_answer(client: Any) -> None:
    await say(
        client,
        wire.Open(1),
        wire.Extend(1, 1, [Text("one ")]),
        wire.Fork(1, [2, 3]),
        generate(2, 2, "two"),
        generate(3, 3, ""),
    )
    answers = [await hear(client) for _ in range(3)]
    assert answers[0] == wire.Extended(1, "one ")
    assert [(answer.call, answer.value.outputs[0].text) for answer in answers[1:]] == [(2, "ONE TWO"), (3, "ONE ")]


async def test_text_streams_for_the_call_that_asks_for_it(client: Any) -> None:
    await say(client, wire.Open(1), generate(1, 1, "a b c", stream=True), wire.Open(2), generate(2, 2, "d e"))
    answers = [await hear(client) for _ in range(5)]
    assert [answer.text for answer in answers if isinstance(answer, wire.Piece)] == ["A", "B", "C"]
    assert sorted(answer.call for answer in answers if isinstance(answer, wire.GenerateAnswer)) == [1, 2]


async def test_a_choice_is_made(client: Any) -> None:
    await say(client, wire.Open(1), wire.Select(1, 1, [Text("q")], ["abc", "a"], "greedy_token"))
    assert (await hear(client)).value.index == 1


async def test_a_constraint_is_prepared(client: Any, programs: Any) -> None:
    await say(client, wire.Prepare(1, Constraint("regex", "a")))
    assert await hear(client) == wire.Prepared(1)
    assert programs.sessions[0].prepared == [Constraint("regex", "a")]


async def test_a_short_call_does_not_wait_for_a_long_one(client: Any) -> None:
    await say(client, wire.Open(1), wire.Open(2), generate(1, 1, "hang"), generate(2, 2, "quick"))
    assert (await hear(client)).call == 2


async def test_a_cancelled_call_ends_and_is_not_answered(client: Any, programs: Any) -> None:
    await say(client, wire.Open(1), generate(1, 1, "hang"))
    await until(lambda: programs.sessions and programs.sessions[0].running)
    await say(client, wire.Cancel(1), wire.Cancel(99))
    await until(lambda: not programs.sessions[0].running)
    await say(client, wire.Open(2), generate(2, 2, "next"))
    assert (await hear(client)).call == 2


async def test_discarded_states_are_gone(client: Any, programs: Any) -> None:
    await say(client, wire.Open(1), wire.Open(2), wire.Discard([1, 77]), wire.Extend(1, 1, []))
    assert await hear(client) == wire.Failed(1, wire.Fault("RequestError", "state 1 is not open"))
    assert list(programs.sessions[0].texts) == [2]


# ------------------------------------------------------------------------------------------ faults


async def test_a_failed_call_answers_with_its_error(client: Any) -> None:
    await say(client, wire.Open(1), generate(1, 1, "fail"))
    fault = wire.Fault("RequestError", "the regex cannot be read", "constraint", "invalid_regex")
    assert await hear(client) == wire.Failed(1, fault)


async def test_a_fault_of_the_server_is_logged_and_not_described(client: Any, caplog: Any) -> None:
    await say(client, wire.Open(1), generate(1, 1, "crash"))
    assert await hear(client) == wire.Failed(
        1, wire.Fault("RequestFailed", "internal error; the server's log has the details")
    )
    assert "ZeroDivisionError" in caplog.text


async def test_an_answer_too_large_to_send_is_an_error(client: Any) -> None:
    await say(client, wire.Open(1), generate(1, 1, "huge"))
    failed = await hear(client)
    assert failed.fault.kind == "RequestError"
    assert "the limit is 33554432; ask for less at once" in failed.fault.message


async def test_states_that_cannot_be_made_are_told_without_being_asked(client: Any) -> None:
    await say(client, wire.Open(1), wire.Fork(1, list(range(2, MOST_STATES + 3))))
    told = await hear(client)
    assert told.states == list(range(2, MOST_STATES + 3))
    assert told.fault == wire.Fault("Overloaded", f"{MOST_STATES} states are open, the most there may be")


async def test_too_many_calls_at_once_are_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_CALLS", 1)
    hanging = [generate(state, state, "hang") for state in (1, 2)]
    await say(client, *map(wire.Open, (1, 2, 3)), *hanging, generate(3, 3, "more"))
    fault = wire.Fault("Overloaded", "this client has 2 calls open, the most it may; wait for one to end")
    assert await hear(client) == wire.Failed(3, fault)


async def test_a_call_that_cannot_be_read_fails_alone(client: Any) -> None:
    await client.send(msgspec.msgpack.encode(["Extend", 5, 1, "no list"]))
    await say(client, wire.Open(1), wire.Extend(6, 1, [Text("x")]))
    failed = await hear(client)
    assert (failed.call, failed.fault.kind) == (5, "RequestError")
    assert failed.fault.message == "the call cannot be read: Expected `array`, got `str` - at `$[3]`"
    assert await hear(client) == wire.Extended(6, "x")


@pytest.mark.parametrize(
    ("frame", "code", "reason"),
    [
        (b"\xff\xff", 1008, "a message cannot be read: "),
        (msgspec.msgpack.encode(["Fork", 1]), 1008, "a message cannot be read: "),
        ("words", 1003, "programs speak in binary frames, found a text frame"),
        (wire.write(wire.Hello(wire.PROTOCOL)), 1008, "Hello was said before"),
    ],
)
async def test_who_breaks_the_protocol_is_left(
    client: Any, programs: Any, frame: Any, code: int, reason: str, address: str
) -> None:
    await say(client, wire.Open(1), generate(1, 1, "hang"))
    await client.send(frame)
    found = await end(client)
    assert (found[0], found[1][: len(reason)]) == (code, reason)
    await until(lambda: programs.sessions[0].closed and not programs.sessions[0].running)
    async with connect(address, proxy=None) as another:
        await say(another, wire.Hello(wire.PROTOCOL))
        assert isinstance(await hear(another), wire.Welcome)


async def test_a_call_number_is_open_once(client: Any) -> None:
    await say(client, wire.Open(1), wire.Open(2), generate(1, 1, "hang"), generate(1, 2, "x"))
    assert await end(client) == (1008, "call 1 is open already")


# ------------------------------------------------------------------------------------------ the end


@pytest.mark.parametrize("leave", ["close", "abort", "half-close"])
async def test_a_client_that_leaves_takes_its_session_along(client: Any, programs: Any, leave: str) -> None:
    await say(client, wire.Open(1), wire.Fork(1, [2, 3]), generate(1, 1, "hang"), generate(2, 2, "hang"))
    await until(lambda: programs.sessions and programs.sessions[0].running == 2)
    match leave:
        case "close":
            await client.close()
        case "abort":
            client.transport.abort()
        case "half-close":
            client.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
    await until(lambda: programs.sessions[0].closed and not programs.sessions[0].running)


async def test_a_client_that_does_not_read_is_left(
    client: Any, programs: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr("sgframe_programs.outbox.UNREAD_TIME", 0.05)
    client.transport.pause_reading()
    client.transport.pause_reading = client.transport.resume_reading = lambda: None
    await say(client, wire.Open(1), wire.Extend(1, 1, [Text("x" * 4_000_000)]))
    more = (wire.Extend(call, 1, [Text("x" * 4_000_000)]) for call in range(2, 8))
    saying = asyncio.create_task(say(client, *more))  # which may never be taken
    await until(lambda: programs.sessions[0].closed)
    assert "does not read what it is sent" in caplog.text
    client.transport.abort()
    saying.cancel()
    await asyncio.gather(saying, return_exceptions=True)


async def test_open_programs_end_with_the_server() -> None:
    programs = ProgramServer()
    with programs.serving() as url:
        websocket = await connect(url.replace("http", "ws") + wire.PATH, proxy=None)
        await say(websocket, wire.Hello(wire.PROTOCOL), wire.Open(1), generate(1, 1, "hang"))
        await until(lambda: programs.sessions and programs.sessions[0].running)
    assert programs.sessions[0].closed
    assert not programs.sessions[0].running
    assert (await end(websocket))[0] == 1012
