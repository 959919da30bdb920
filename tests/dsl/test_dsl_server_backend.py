"""``sgf.Server`` against the real endpoint, its sessions scripted: calls, faults, loss and return of the server."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest
from scripted_session import MOST_STATES, ProgramServer

from sgframe.constraints import Constraint
from sgframe.errors import Overloaded, RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.server import Server
from sgframe_dsl.errors import BackendClosed, BackendError
from sgframe_programs import wire
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
def url(shared: tuple[ProgramServer, str], programs: ProgramServer) -> str:
    return shared[1]


@pytest.fixture
def make() -> Iterator[Callable[..., Server]]:
    """Makes backends, closed at the end."""
    made: list[Server] = []

    def make(url: str, **options: Any) -> Server:
        made.append(Server(url, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def server(url: str, make: Any) -> Server:
    made: Server = make(url)
    return made


async def on(server: Server, work: Coroutine[Any, Any, Any]) -> Any:
    """What ``work`` gives in the backend's own loop."""
    return await asyncio.wait_for(asyncio.wrap_future(server.schedule(work)), 5)


async def generate(server: Server, state: int, text: str, **options: Any) -> str:
    generated = await on(server, server.generate(state, [Text(text)], GREEDY, **options))
    answer: str = generated.outputs[0].text
    return answer


async def until(condition: Callable[[], object]) -> None:
    """Wait; the test's time limit is the bound."""
    while not condition():
        await asyncio.sleep(0.002)


# ------------------------------------------------------------------------------------------ calls


async def test_states_grow_fork_and_answer(server: Server) -> None:
    state = await on(server, server.open())
    assert await on(server, server.extend(state, [Text("one ")])) == "one "
    left, right = await on(server, server.fork(state, 2))
    assert await generate(server, left, "two") == "ONE TWO"
    assert await generate(server, right, "three") == "ONE THREE"
    selected = await on(server, server.select(state, [], ["abc", "a"], "greedy_token"))
    assert (selected.index, selected.scores) == (1, [-3.0, -1.0])


async def test_pieces_of_text_are_heard_in_order(server: Server) -> None:
    state = await on(server, server.open())
    pieces: list[str] = []
    await generate(server, state, "a b c", on_text=pieces.append)
    assert pieces == ["A", "B", "C"]


async def test_who_hears_the_pieces_may_fail_alone(server: Server, programs: Any) -> None:
    first, second = await on(server, server.open()), await on(server, server.open())
    with pytest.raises(ZeroDivisionError):
        await generate(server, first, "a b c", on_text=lambda text: 1 / 0)
    assert await generate(server, second, "d") == "D"


async def test_a_constraint_is_prepared(server: Server, programs: Any) -> None:
    await on(server, server.prepare(Constraint("regex", "a")))
    assert programs.sessions[0].prepared == [Constraint("regex", "a")]


async def test_discarded_states_are_gone_on_both_sides(server: Server, programs: Any) -> None:
    state = await on(server, server.open())
    (branch,) = await on(server, server.fork(state, 1))
    await on(server, server.discard([state, 12345]))
    await on(server, server.discard([state]))
    assert await generate(server, branch, "x") == "X"
    assert list(programs.sessions[0].texts) == [branch]
    with pytest.raises(RequestError, match=rf"state {state} is not open"):
        await generate(server, state, "x")


async def test_a_cancelled_call_ends_on_the_server(server: Server, programs: Any) -> None:
    state = await on(server, server.open())
    call = server.schedule(server.generate(state, [Text("hang")], GREEDY))
    await until(lambda: programs.sessions and programs.sessions[0].running)
    call.cancel()
    await until(lambda: not programs.sessions[0].running)


async def test_more_calls_than_may_be_open_wait(
    url: str, make: Any, programs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgframe_dsl.backends.connection.MAX_CALLS", 2)
    server = make(url)
    states = [await on(server, server.open()) for _ in range(4)]
    calls = [server.schedule(server.generate(state, [Text("hang")], GREEDY)) for state in states]
    await until(lambda: programs.sessions[0].running == 2)
    calls[0].cancel()
    calls[1].cancel()
    await until(lambda: programs.sessions[0].running == 2 and len(programs.sessions[0].texts) == 4)


async def test_many_threads_share_one_connection(server: Server, programs: Any) -> None:
    answers: list[str] = []

    def work(number: int) -> None:
        state = server.schedule(server.open()).result()
        answer = server.schedule(server.generate(state, [Text(f"n{number}")], GREEDY)).result()
        server.schedule(server.discard([state])).result()
        answers.append(answer.outputs[0].text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(MOST_STATES)]
    for thread in threads:
        thread.start()
    await until(lambda: len(answers) == MOST_STATES)
    assert sorted(answers) == [f"N{number}" for number in range(MOST_STATES)]
    assert len(programs.sessions) == 1


async def test_the_salt_goes_along(url: str, make: Any, programs: Any) -> None:
    server = make(url, salt="s")
    await on(server, server.extend(await on(server, server.open()), []))  # an answer means that the server has it
    assert programs.sessions[0].namespace == (("salt", "s"),)


# ------------------------------------------------------------------------------------------ errors of calls


async def test_the_servers_error_is_raised_as_it_was(server: Server) -> None:
    state = await on(server, server.open())
    with pytest.raises(RequestError, match="the regex cannot be read") as raised:
        await generate(server, state, "fail")
    assert (raised.value.param, raised.value.code) == ("constraint", "invalid_regex")


async def test_a_state_that_could_not_be_made_fails_with_the_reason(server: Server) -> None:
    state = await on(server, server.open())
    branches = await on(server, server.fork(state, MOST_STATES))
    with pytest.raises(Overloaded, match="8 states are open, the most there may be"):
        await generate(server, branches[-1], "x")
    assert await generate(server, branches[0], "x") == "X"


async def test_what_cannot_be_sent_fails_alone(server: Server) -> None:
    state = await on(server, server.open())
    with pytest.raises(RequestError, match="no UTF-8"):
        await generate(server, state, "\ud800")
    assert await generate(server, state, "x") == "X"


# ------------------------------------------------------------------------------------------ connecting


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
async def test_the_address_may_end_in_v1(url: str, make: Any, end: str) -> None:
    server = make(url + end)
    assert await generate(server, await on(server, server.open()), "x") == "X"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:30000", "ftp://host", "http://", "http://host:port", "http://h/?a=b", "http://[::"]
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(BackendError, match="is no address of a server"):
        Server(url)


async def test_a_server_that_is_not_there(make: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = make(f"http://127.0.0.1:{port}")
    with pytest.raises(
        BackendError, match=rf"http://127.0.0.1:{port} cannot be reached: .*start it with 'sgframe serve'"
    ):
        await on(server, server.open())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 20\r\n\r\n<html>\n no\n</html>\n\n",
            "HTTP 404: <html> no </html>; no pr",
        ),
        (
            b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 39\r\n\r\n{"error": {"message": "the key is bad"}}'[:-1],
            "HTTP 401: .*; give sgf.Server the right api_key",
        ),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 500\r\n\r\n" + b"<p>" * 166 + b"..", "HTTP 500: (<p>)+<?p? …$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP 200: hi"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "cannot be spoken to as a server of sgframe"),
        (b"", "cannot be spoken to as a server of sgframe"),
    ],
    ids=["404", "401", "500", "200", "ssh", "nothing"],
)
async def test_a_server_that_is_another(make: Any, answer: bytes, reason: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        server = make(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")
        with pytest.raises(BackendError, match=reason):
            await on(server, server.open())


async def test_a_server_that_does_not_answer(make: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server = make(f"http://127.0.0.1:{mute.getsockname()[1]}", connect_timeout=0.05)
        with pytest.raises(BackendError, match=r"did not answer within 0\.05 s"):
            await on(server, server.open())


async def test_a_server_of_another_version(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_dsl.backends.handshake.PROTOCOL", 99)
    with pytest.raises(
        BackendError, match="refuses: the client speaks version 99 of the protocol, the server 1; update the s"
    ):
        await on(server, server.open())


async def test_a_key_that_cannot_be_sent_is_not_quoted(url: str, make: Any) -> None:
    server = make(url, api_key="secret\n")
    with pytest.raises(BackendError, match="the api_key holds a character that cannot be sent") as raised:
        await on(server, server.open())
    assert "secret" not in str(raised.value)


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    url: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "ws_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = make(url)
    assert await on(server, server.open())


async def test_those_who_come_at_once_share_one_connection(server: Server, programs: Any) -> None:
    await asyncio.gather(*(on(server, server.open()) for _ in range(5)))
    assert len(programs.sessions) == 1


# ------------------------------------------------------------------------------------------ loss and return


async def test_a_server_that_goes_away_fails_what_is_open_and_is_found_again(make: Any) -> None:
    programs = ProgramServer()
    with programs.serving() as url:
        server = make(url)
        old = await on(server, server.open())
        call = asyncio.create_task(generate(server, old, "hang"))
        await until(lambda: programs.sessions and programs.sessions[0].running)
    with pytest.raises(BackendError, match=rf"the connection to {url} was lost, .*: the server was shut down"):
        await call
    with pytest.raises(BackendError, match="cannot be reached"):
        await on(server, server.open())
    with programs.serving(int(url.rpartition(":")[2])):
        new = await on(server, server.open())
        assert await generate(server, new, "x") == "X"
        for use in (generate(server, old, "x"), on(server, server.fork(old, 2))):
            with pytest.raises(
                BackendError, match=rf"the connection to {url} was lost, and its programs' states with it"
            ):
                await use
        await on(server, server.discard([old, new]))


async def test_a_connection_that_breaks_off_is_seen(make: Any) -> None:
    await fails_when(make, lambda websocket: websocket.transport.abort(), "it broke off; the server may have died")


async def test_a_server_that_talks_nonsense_is_left(make: Any) -> None:
    await fails_when(make, lambda websocket: websocket.send(b"\xff\xff"), "it sent what cannot be read")


async def fails_when(make: Any, act: Callable[[Any], Awaitable[None] | None], reason: str) -> None:
    """An open call fails for ``reason`` when a server of its own ``act``s."""
    from websockets.asyncio.server import serve

    async def handle(websocket: Any) -> None:
        await websocket.recv()
        await websocket.send(wire.write(wire.Welcome(wire.PROTOCOL, "m", 9)))
        await websocket.recv()
        await websocket.recv()
        if (acting := act(websocket)) is not None:
            await acting
        await websocket.wait_closed()

    async with serve(handle, "127.0.0.1", 0) as other:
        server = make(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")
        state = await on(server, server.open())
        with pytest.raises(BackendError, match=reason):
            await generate(server, state, "hang")


# ------------------------------------------------------------------------------------------ the end


async def test_a_closed_backend_fails_what_is_open_and_leaves_nothing(server: Server, programs: Any) -> None:
    state = await on(server, server.open())
    call = asyncio.create_task(generate(server, state, "hang"))
    await until(lambda: programs.sessions and programs.sessions[0].running)
    server.close()
    with pytest.raises(BackendClosed, match=r"sgf\.Server\('http://127\.0\.0\.1:\d+'\) was closed"):
        await call
    with pytest.raises(BackendClosed):
        await on(server, server.open())
    server.close()
    await until(lambda: programs.sessions[0].closed)
    await until(lambda: not [each for each in threading.enumerate() if each.name.startswith("sgframe::sgf.Server")])


async def test_a_close_while_it_connects_ends_the_attempt(make: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server = make(f"http://127.0.0.1:{mute.getsockname()[1]}")
        opening = server.schedule(server.open())
        await asyncio.sleep(0.02)
        server.close()
        with pytest.raises(BackendClosed):
            opening.result(1)


async def test_a_fork_of_the_process_is_refused_and_does_no_harm(server: Server) -> None:
    state = await on(server, server.open())
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            server.schedule(server.open())
        except BackendError as error:
            os.write(writing, str(error).encode())
        server.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert b"was in use when this process was forked" in os.read(reading, 1000)
    assert await generate(server, state, "x") == "X"


async def test_the_interpreter_ends_with_a_backend_that_nobody_closed(url: str, programs: Any) -> None:
    code = (
        "from sgframe_dsl.backends.server import Server\n"
        f"server = Server({url!r})\n"
        "server.schedule(server.open()).result()\n"
        "print('left')"
    )
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-c", code),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert await asyncio.wait_for(child.communicate(), 20) == (b"left\n", b"")
    await until(lambda: programs.sessions[0].closed)
