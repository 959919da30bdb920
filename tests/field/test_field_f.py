"""Processes that die, stop or are told to end at the worst moment: clients are told, the server ends, nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from servers import SIMULATED, Server, served, wait_for

SLOW = (*SIMULATED, "--set", "simulated.step_seconds=0.02")
LONG = {"model": "simulated", "prompt": "abc", "max_tokens": 3900, "ignore_eos": True}


class Client(threading.Thread):
    """Reads a long streamed answer until it ends or breaks off; ``text`` is all that came."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.text = url, ""
        self.start()
        wait_for(lambda: "data:" in self.text, 20, "the first chunk")

    def run(self) -> None:
        body = LONG | {"stream": True}
        with (
            contextlib.suppress(httpx.RemoteProtocolError),
            httpx.stream("POST", f"{self.url}/v1/completions", json=body, timeout=60) as answer,
        ):
            for piece in answer.iter_text():
                self.text += piece

    def error(self) -> dict[str, Any]:
        """The error that ended the stream, which must be its last event."""
        self.join(timeout=20)
        last = self.text.removesuffix("\n\n").split("\n\n")[-1]
        return json.loads(last.removeprefix("data: "))["error"]


@pytest.fixture
def shared_memory() -> Iterator[None]:
    """The test leaves no shared memory behind."""
    before = set(os.listdir("/dev/shm"))
    yield
    assert set(os.listdir("/dev/shm")) <= before


@contextlib.contextmanager
def starting(*arguments: str, environ: dict[str, str] | None = None) -> Iterator[Server]:
    """A server that has just been launched."""
    with tempfile.TemporaryDirectory(prefix="srv") as folder:
        server = Server(arguments or SIMULATED, Path(folder), environ)
        try:
            yield server
        finally:
            server.close()


def everything_gone(server: Server, pids: list[int]) -> None:
    wait_for(lambda: not any(map(psutil.pid_exists, pids)), 5, "the end of all processes")
    assert server.private_folders() == []


def pids_of(server: Server) -> list[int]:
    return [server.process.pid, *(child.pid for child in server.children().values())]


# ------------------------------------------------------------------------------------------ death


@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("name", ["scheduler", "worker-0"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGABRT])
def test_a_child_that_dies_ends_open_streams_and_then_the_server(name: str, signum: signal.Signals) -> None:
    with served(*SLOW) as server:
        pids = pids_of(server)
        clients = [Client(server.url) for _ in range(5)]
        server.children()[name].send_signal(signum)
        for client in clients:
            error = client.error()
            assert (error["type"], error["code"]) == ("server_error", "engine_dead")
            assert f"the {name} process was killed by {signum.name}" in error["message"]
        while server.process.poll() is None:  # until it is gone, nobody is told that all is well
            with contextlib.suppress(httpx.TransportError):
                assert httpx.get(f"{server.url}/health", timeout=5).status_code == 503
        assert server.process.wait(timeout=5) == 1
        everything_gone(server, pids)


@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("streams", [0, 5])
def test_when_the_front_is_killed_its_children_follow(streams: int) -> None:
    with served(*SLOW) as server:
        pids = pids_of(server)
        clients = [Client(server.url) for _ in range(streams)]
        server.process.kill()
        server.process.wait()
        everything_gone(server, pids)
        for client in clients:
            client.join(timeout=5)


# ------------------------------------------------------------------------------------------ signals


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", [0.1, 0.5, 0.8, 1.1, 2.0])
def test_signals_at_any_moment_of_the_start_end_it(when: float, signum: signal.Signals, times: int) -> None:
    with starting() as server:
        time.sleep(when)
        pids = [server.process.pid, *(child.pid for child in psutil.Process(server.process.pid).children())]
        for _ in range(times):
            server.process.send_signal(signum)
            time.sleep(0.05)
        code = server.process.wait(timeout=15)
        assert code != 0 or "sgframe is ready" in server.output
        everything_gone(server, pids)


def test_a_start_that_is_stopped_does_not_wait_for_a_model_that_loads(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(
        "import time\n"
        "from sgframe import Provider, hookimpl\n"
        "from sgframe_simulated.backend import SimulatedBackend\n"
        "from sgframe_simulated import SimulatedSettings\n\n\n"
        "class Endless(SimulatedBackend):\n"
        "    def executor(self):\n"
        "        executor = super().executor()\n"
        "        executor.load = lambda spec, progress: (progress('weights', 0, 1), time.sleep(60))\n"
        "        return executor\n\n\n"
        "@hookimpl\n"
        "def sgframe_backends():\n"
        "    return [Provider('endless', 'endless:Endless', settings=SimulatedSettings)]\n"
    )
    info = tmp_path / "endless-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: endless\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sgframe]\nendless = endless\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    options = ("--backend", "endless", "--source", "simulated", "--model", "simulated")
    with starting(*options, environ={"PYTHONPATH": path}) as server:
        wait_for(lambda: "weights: 0" in server.output, 20, "the loading")
        assert server.stop() == 128 + signal.SIGTERM
        assert "did not end within" not in server.output


@pytest.mark.parametrize("name", ["scheduler", "worker-0"])
def test_a_stopped_process_cannot_keep_the_server_from_ending(name: str) -> None:
    with served(*SLOW, "--drain-timeout", "0.5") as server:
        pids = pids_of(server)
        client = Client(server.url)
        server.children()[name].suspend()
        assert server.stop(timeout=30) == 0
        assert client.error()["message"] == "the engine is down: the server shut down before this request was complete"
        assert "Traceback" not in server.output
        everything_gone(server, pids)


def test_a_client_that_does_not_read_cannot_keep_the_server_from_ending() -> None:
    body = json.dumps(LONG | {"stream": True, "n": 8}).encode()
    with served(*SIMULATED) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as lazy:
            lazy.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            wait_for(lambda: "prefill" in server.output, 10, "the request's start")
            assert server.stop(timeout=30) == 0


# ------------------------------------------------------------------------------------------ surroundings


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_server_serves_without_standard_streams(closed: tuple[int, ...], short_path: Path) -> None:
    serves_and_ends(short_path, preexec_fn=lambda: [os.close(descriptor) for descriptor in closed])


def test_a_server_serves_when_nobody_reads_its_ready_line(short_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        serves_and_ends(short_path, stdout=writer)
    finally:
        os.close(writer)


def serves_and_ends(folder: Path, **options: Any) -> None:
    """A server started with these options of Popen answers, and drains at SIGTERM."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "sgframe", "serve", *SIMULATED, "--port", str(port)]

    def answers() -> bool:
        body = {"model": "simulated", "prompt": [104, 105], "max_tokens": 4}
        with contextlib.suppress(httpx.ConnectError):
            answer = httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=body, timeout=10)
            return answer.json()["choices"][0]["text"] == "hihi"
        assert server.poll() is None, "it ended"
        return False

    with subprocess.Popen(command, env=environ, **options) as server:
        try:
            wait_for(answers, 30, "an answer")
        finally:
            server.terminate()
        assert server.wait(timeout=20) == 0
    assert list(folder.glob("sgframe-*")) == []


def test_a_folder_too_deep_for_sockets_is_named_with_the_remedy(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with starting(*SIMULATED, environ={"TMPDIR": str(deep)}) as server:
        assert server.process.wait(timeout=30) == 2
        assert "the unix socket path" in server.output
        assert "set the environment variable TMPDIR to a folder with a shorter path" in server.output
        assert list(deep.iterdir()) == []


def test_a_low_soft_limit_on_open_files_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        with served(*SIMULATED) as server:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE)[0] == min(hard, 65536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ------------------------------------------------------------------------------------------ the log


def test_every_end_of_a_request_is_one_line_with_its_cause() -> None:
    options = ("--set", "simulated.nan_token=33", "--set", "simulated.step_seconds=0.005", "--request-timeout", "2")
    requests = {
        "length": {"prompt": "abc", "max_tokens": 3},
        "stop at 'c'": {"prompt": "abc", "stop": "c"},
        "stop at 98": {"prompt": "abc", "stop_token_ids": [98]},
        "abort (disconnect)": LONG,
        "abort (timeout after 2 s)": LONG,
        "error: the model's output was not finite (NaN or infinity)": {"prompt": "oh!"},
    }
    with served(*SIMULATED, *options) as server, server.client() as client:
        for number, (cause, body) in enumerate(requests.items()):
            patience = 0.1 if "disconnect" in cause else 10
            with contextlib.suppress(httpx.ReadTimeout):
                client.post(
                    "/v1/completions",
                    json={"model": "simulated", **body},
                    headers={"X-Request-Id": f"request-{number}"},
                    timeout=patience,
                )
        wait_for(lambda: server.output.count(" ended: ") == len(requests), 10, "a line for each request")
        for number, cause in enumerate(requests):
            assert f"request request-{number} ended: {cause}; " in server.output
