"""Programs on a server in a process of its own, by the simulated model: what a client keeps there goes when it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import httpx
import pytest
from servers import SIMULATED, served, wait_for

from sgframe.errors import RequestError, RequestFailed
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.server import Server
from sgframe_dsl.errors import BackendError
from sgframe_programs.parts import Generated, Text

LONG = SamplingParams(max_tokens=2000, ignore_eos=True)

CLIENT = """
import sys
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.server import Server
from sgframe_programs.parts import Text

server = Server(sys.argv[1], api_key="key")
run = lambda work: server.schedule(work).result()
state = run(server.open())
run(server.generate(state, [Text("Once upon a time")], SamplingParams(max_tokens=4)))
for branch in run(server.fork(state, 3)):
    server.schedule(server.generate(branch, [], SamplingParams(max_tokens=2000, ignore_eos=True)))
run(server.extend(state, []))
print("under way", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def simulated() -> Iterator[str]:
    with served(*SIMULATED, "--api-key", "key", "--set", "simulated.step_seconds=0.01") as server:
        yield server.url


@pytest.fixture
def server(simulated: str) -> Iterator[Server]:
    server = Server(simulated, api_key="key")
    yield server
    server.close()


def stats(url: str) -> dict[str, Any]:
    answer = httpx.get(f"{url}/server_info", headers={"Authorization": "Bearer key"})
    found: dict[str, Any] = answer.json()["stats"]
    return found


def at_rest(url: str) -> bool:
    found = stats(url)
    return not (found["running"] or found["waiting"] or found["leases"] or found["slots_leased"])


def result(server: Server, work: Any) -> Any:
    return server.schedule(work).result(10)


def busy(server: Server) -> tuple[int, Future[Generated]]:
    """A state whose prefix is leased, and a long call on it."""
    state = result(server, server.open())
    result(server, server.generate(state, [Text("Once upon")], SamplingParams(max_tokens=4)))
    return state, server.schedule(server.generate(state, [], LONG))


def test_a_state_is_a_handle_on_what_is_computed(server: Server, simulated: str) -> None:
    state = result(server, server.open())
    first = result(server, server.generate(state, [Text("Once upon a time")], SamplingParams(max_tokens=4)))
    assert (first.outputs[0].text, first.cost.prompt_tokens, first.cost.cached_tokens) == ("Onc", 17, 0)
    pieces: list[str] = []
    branches = result(server, server.fork(state, 2))
    second = result(server, server.generate(branches[1], [Text("!")], SamplingParams(max_tokens=4), pieces.append))
    assert "".join(pieces) == second.outputs[0].text
    assert (second.cost.prompt_tokens, second.cost.cached_tokens) == (22, 20)
    wait_for(lambda: stats(simulated)["leases"] == 2, 5)
    result(server, server.discard([state, *branches]))
    wait_for(lambda: stats(simulated)["leases"] == 0, 5)


def test_a_request_that_cannot_be_honoured_fails_as_in_the_same_process(server: Server) -> None:
    state = result(server, server.open())
    with pytest.raises(RequestError, match="top_p must be a number") as raised:
        result(server, server.generate(state, [Text("x")], SamplingParams(top_p=7.0)))
    assert raised.value.param == "top_p"


def test_the_wrong_key_is_told(simulated: str) -> None:
    server = Server(simulated)
    with pytest.raises(BackendError, match=r"HTTP 401: the API key is missing; .* give sgf.Server the right api_key"):
        result(server, server.open())
    server.close()


def test_a_closed_backend_gives_everything_back(simulated: str) -> None:
    server = Server(simulated, api_key="key")
    busy(server)
    wait_for(lambda: stats(simulated)["running"], 5)
    server.close()
    wait_for(lambda: at_rest(simulated), 2, "rest")


def test_a_client_that_is_killed_gives_everything_back(simulated: str) -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, simulated], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
    )
    with client:
        assert client.stdout
        assert client.stdout.readline() == b"under way\n"
        wait_for(lambda: (found := stats(simulated))["running"] == 3 and found["leases"], 5, "the client's work")
        client.send_signal(signal.SIGKILL)
    wait_for(lambda: at_rest(simulated), 2, "rest")


@pytest.mark.slow
def test_a_server_that_is_killed_is_told_within_a_second() -> None:
    with served(*SIMULATED, "--set", "simulated.step_seconds=0.01") as process:
        server = Server(process.url)
        state, call = busy(server)
        wait_for(lambda: stats(process.url)["running"], 5)
        process.process.send_signal(signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(BackendError, match=rf"the connection to {process.url} was lost, .*: it broke off"):
            call.result(5)
        assert time.monotonic() - started < 1
        with pytest.raises(BackendError, match="was lost"):
            result(server, server.generate(state, [Text("x")], LONG))
        server.close()


@pytest.mark.slow
def test_a_server_that_is_stopped_does_not_wait_for_its_programs() -> None:
    with served(*SIMULATED, "--set", "simulated.step_seconds=0.01", "--drain-timeout", "0.2") as process:
        server = Server(process.url)
        _, call = busy(server)
        idle = result(server, server.open())
        wait_for(lambda: stats(process.url)["running"], 5)
        process.process.send_signal(signal.SIGTERM)
        with pytest.raises(RequestFailed, match="shutdown"):
            call.result(5)
        process.process.wait(5)
        with pytest.raises(
            BackendError, match=rf"the connection to {process.url} was lost, .*: the server was shut down"
        ):
            result(server, server.generate(idle, [Text("x")], LONG))
        server.close()
