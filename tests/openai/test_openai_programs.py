"""Programs on the server: its gate stands before their WebSocket, and its stop does not wait for them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sgframe.statistics import SchedulerStats
from sgframe_openai import server as module
from sgframe_openai.server import HttpServer
from sgframe_programs import wire
from sgframe_programs.parts import Text


async def refusal(url: str, **headers: str) -> tuple[int, Any]:
    """Status and headers with which the handshake is denied."""
    with pytest.raises(InvalidStatus) as raised:
        await connect(socket_of(url), additional_headers=headers, proxy=None)
    return raised.value.response.status_code, raised.value.response


def socket_of(url: str) -> str:
    return url.replace("http", "ws", 1) + wire.PATH


async def welcome(url: str, **headers: str) -> ClientConnection:
    websocket = await connect(socket_of(url), additional_headers=headers, proxy=None, max_size=None, compression=None)
    await websocket.send(wire.write(wire.Hello(wire.PROTOCOL)))
    assert wire.read_server(await websocket.recv(decode=False)) == wire.Welcome(wire.PROTOCOL, "m", 4000)
    return websocket


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({}, "the API key is missing; send it as 'Authorization: Bearer KEY'"),
        ({"Authorization": "Bearer no"}, "the API key is wrong; send it as 'Authorization: Bearer KEY'"),
    ],
)
async def test_programs_need_the_key_too(make_engine: Any, headers: Any, message: str) -> None:
    server = HttpServer(make_engine(api_key="secret"))
    host, port = await server.start()
    status, answer = await refusal(f"http://{host}:{port}", **headers)
    assert (status, message in answer.body.decode()) == (401, True)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    await (await welcome(f"http://{host}:{port}", Authorization="Bearer secret")).close()
    await server.stop(1)


async def test_a_page_of_another_server_is_refused(url: str) -> None:
    for origin in ("https://evil.example", "http://127.0.0.1:1", "http://localhost", "null", "http://[", ""):
        status, answer = await refusal(url, Origin=origin)
        assert (status, "may not open a WebSocket of this server" in answer.body.decode()) == (403, True)
    await (await welcome(url, Origin=url)).close()


async def test_the_path_is_no_page(client: Any) -> None:
    assert (await client.get(wire.PATH)).status_code == 404


async def test_a_stop_ends_open_programs_within_its_grace(engine: Any) -> None:
    server = HttpServer(engine)
    host, port = await server.start()
    websocket = await welcome(f"http://{host}:{port}")
    started = time.monotonic()
    await server.stop(5)
    assert time.monotonic() - started < 2
    with pytest.raises(ConnectionClosed):
        await websocket.recv()


async def test_a_client_that_never_reads_is_cut_off(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_programs.outbox.UNREAD_TIME", 0.05)
    monkeypatch.setattr(module, "LINGER", 0.05)
    server = HttpServer(engine)
    host, port = await server.start()
    websocket = await welcome(f"http://{host}:{port}")
    websocket.transport.pause_reading()
    websocket.transport.resume_reading = lambda: None  # type: ignore[method-assign]
    for state in range(40):
        await websocket.send(wire.write(wire.Open(state)))
        await websocket.send(wire.write(wire.Extend(state, state, [Text("x" * 300_000)])))
    while server._server.server_state.connections:
        await asyncio.sleep(0.01)
    websocket.transport.abort()
    await server.stop(1)


async def test_leases_are_measured(client: Any, engine: Any) -> None:
    engine.manager.stats = SchedulerStats(leases=3, lease_tokens=120, leases_revoked=2)
    lines = (await client.get("/metrics")).text.splitlines()
    for line in ("sgframe_leases 3.0", "sgframe_lease_tokens 120.0", "sgframe_leases_revoked_total 2.0"):
        assert line in lines


async def test_a_stopped_client_is_cut_off_with_what_it_was_sent(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PONG_TIME", 0.05)
    monkeypatch.setattr(module, "LINGER", 0.05)
    server = HttpServer(engine)
    server._config.ws_ping_interval = 0.05
    host, port = await server.start()
    websocket = await welcome(f"http://{host}:{port}")
    websocket.transport.pause_reading()
    websocket.transport.resume_reading = lambda: None  # type: ignore[method-assign]
    with suppress(ConnectionClosed):
        for state in range(60):
            await websocket.send(wire.write(wire.Open(state)))
            await websocket.send(wire.write(wire.Extend(state, state, [Text("x" * 300_000)])))
    while server._server.server_state.connections:
        await asyncio.sleep(0.01)
    websocket.transport.abort()
    await server.stop(1)
