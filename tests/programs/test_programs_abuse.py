"""What one client asks for, however much, holds up nobody else, and tells it nothing of others."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from scripted_engine import ScriptedEngine
from starlette.websockets import WebSocket, WebSocketDisconnect

from sgframe import Engine, SamplingParams
from sgframe.errors import ContextLengthExceeded, Overloaded, RequestError
from sgframe_programs import encoding, endpoint, wire
from sgframe_programs.content import Content
from sgframe_programs.conversation import VIOLATION
from sgframe_programs.parts import Begin, End, Part, Text
from sgframe_programs.session import MOST_CHOICES, Session

SHORT = SamplingParams(max_tokens=2)


@pytest.fixture
def session() -> Session:
    engine: Any = ScriptedEngine()
    session = Session(engine)
    session.open(0)
    return session


async def turns_of_others(work: Any) -> int:
    """How often another task had its turn while ``work`` ran."""
    turns, working = 0, asyncio.ensure_future(work)
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    await working
    return turns


async def test_between_the_parts_of_a_call_others_have_their_turn(session: Session) -> None:
    turns: list[Part] = [Begin("user"), End()] * 20
    assert await turns_of_others(session.extend(0, turns)) >= len(turns)


async def test_texts_that_follow_each_other_are_added_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Part] = []

    def add(content: Content, part: Part) -> str:
        added.append(part)
        return ""

    monkeypatch.setattr(Content, "add", add)
    await session.extend(0, [Text("a"), Text("b"), Begin("user"), Text("c"), Text("d"), End()])
    assert added == [Text("ab"), Begin("user"), Text("cd"), End()]


async def test_too_many_choices_are_refused(session: Session) -> None:
    choices = [str(number) for number in range(MOST_CHOICES + 1)]
    with pytest.raises(RequestError, match="select takes at most 4096 choices, found 4097"):
        await session.select(0, [], choices, "greedy_token")


async def test_choices_too_long_together_are_refused_before_they_are_encoded(session: Session) -> None:
    with pytest.raises(ContextLengthExceeded, match="the choices have 600002 characters; this server's context holds"):
        await session.select(0, [], ["a" * 300_001, "b" * 300_001], "greedy_token")


async def test_choices_that_take_long_to_encode_are_encoded_in_a_thread(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "LONG_TEXT", 60)
    in_thread: list[Any] = []

    async def to_thread(work: Any) -> Any:
        in_thread.append(work)
        return work()

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    text = [Text("ten of it ")]  # it is encoded before each choice
    await session.select(0, text, ["choice 1", "choice 2"], "greedy_token")
    assert not in_thread
    session.open(1)
    await session.select(1, text, ["choice 1", "choice 2", "choice 3", "choice 4"], "greedy_token")
    assert len(in_thread) == 1


def test_too_many_forks_are_refused_without_a_look_at_their_numbers(session: Session) -> None:
    with pytest.raises(Overloaded, match="1 states are live and 5000 more are asked for, the limit is 4096"):
        session.fork(0, range(5000))


def test_a_call_that_cannot_be_read_takes_no_more_room_than_its_frame() -> None:
    frame = msgspec.msgpack.encode(["Extend", 7, 1, [[]] * 300_000])
    tracemalloc.start()
    with pytest.raises(wire.Unreadable) as raised:
        wire.read_client(frame)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert raised.value.call == 7
    assert most < len(frame)


async def test_one_to_whom_a_message_failed_is_not_told_that_it_ends() -> None:
    async def send(message: Any) -> None:
        if message["type"] != "websocket.accept":
            raise OSError

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    websocket = WebSocket({"type": "websocket", "headers": []}, receive, send)
    await websocket.accept()
    with pytest.raises(WebSocketDisconnect):
        await websocket.send_bytes(b"answer")
    await endpoint._end(websocket, VIOLATION, "a message cannot be read")


def test_that_others_hold_a_prompt_is_not_told() -> None:
    with Engine(**dict.fromkeys(("model", "backend", "source"), "simulated"), transport="inproc") as engine:

        async def reasons(salts: Sequence[str]) -> list[str]:
            told = []
            for salt in salts:
                session = Session(engine.asynchronous, namespace=(("salt", salt),))
                session.open(0)
                told.append((await session.generate(0, [Text("secret " * 9)], SHORT)).cost.cache_reason)
                session.open(1)
                told.append(
                    (await session.select(1, [Text("secret " * 9)], ["a", "b"], "greedy_token")).cost.cache_reason
                )
                session.close()
            return told

        assert engine.run_coroutine(reasons(["mine", "yours"])).result(10) == ["never_seen", "last_token"] * 2


def test_a_lease_that_ran_out_while_nothing_ran_is_counted_no_more() -> None:
    parts = dict.fromkeys(("model", "backend", "source"), "simulated")
    with Engine(**parts, transport="inproc", lease_seconds=0.05) as engine:
        session = Session(engine.asynchronous)
        session.open(0)
        engine.run_coroutine(session.generate(0, [Text("abc")], SHORT)).result(10)
        until = time.monotonic() + 5
        while (engine.stats().leases, engine.stats().leases_revoked) != (0, 1) and time.monotonic() < until:
            time.sleep(0.01)
        assert (engine.stats().leases, engine.stats().leases_revoked) == (0, 1)
