"""Life and death of a server's processes: names, kill -9 of each, signals at any moment, and nothing left behind."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from servers import SIMULATED, Server, served, wait_for

from sgframe.front.folders import private_folder

SLOW = (*SIMULATED, "--set", "simulated.step_seconds=0.05")
LONG = {"model": "simulated", "prompt": "abc", "max_tokens": 2000, "ignore_eos": True}


@pytest.fixture
def server() -> Iterator[Server]:
    with served(*SLOW) as server:
        yield server


def everything_gone(pids: list[int], server: Server) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids) and not server.private_folders()


class Stream(threading.Thread):
    """A client that reads a long streamed answer; ``text`` is all it got, ``error`` what broke off."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.text, self.status, self.error = url, "", 0, ""
        self.start()
        wait_for(lambda: "data:" in self.text or self.error, 20, "the first chunk")

    def run(self) -> None:
        try:
            with httpx.stream("POST", f"{self.url}/v1/completions", json=LONG | {"stream": True}, timeout=30) as answer:
                self.status = answer.status_code
                for piece in answer.iter_text():
                    self.text += piece
        except httpx.HTTPError as error:
            self.error = repr(error)


def test_each_process_is_named_in_ps(server: Server) -> None:
    assert server.children().keys() - {"compiling"} == {"scheduler", "worker-0"}
    assert " ".join(psutil.Process(server.process.pid).cmdline()).startswith("sgframe::front")


@pytest.mark.parametrize("name", ["scheduler", "worker-0"])
def test_a_killed_child_is_seen_at_once_and_waiting_clients_are_told(server: Server, name: str) -> None:
    children = server.children()
    pids = [server.process.pid, *(child.pid for child in children.values())]
    streams = [Stream(server.url) for _ in range(3)]
    plain: list[httpx.Response] = []
    waiting = threading.Thread(
        target=lambda: plain.append(httpx.post(f"{server.url}/v1/completions", json=LONG, timeout=30))
    )
    waiting.start()
    time.sleep(0.3)
    children[name].kill()
    killed = time.monotonic()
    for stream in streams:
        stream.join(timeout=5)
        assert '"error"' in stream.text
        assert "SIGKILL" in stream.text
    waiting.join(timeout=5)
    assert time.monotonic() - killed < 2
    assert plain[0].status_code == 503
    late = httpx.post(f"{server.url}/v1/completions", json=LONG)
    assert (late.status_code, httpx.get(f"{server.url}/health").status_code) == (503, 503)
    assert "SIGKILL" in plain[0].json()["error"]["message"]
    assert server.process.wait(timeout=10) == 1
    wait_for(lambda: everything_gone(pids, server), 5, "the end of all processes and files")


@pytest.mark.parametrize("when", [0.0, 0.3, 1.0, "ready", "busy"])
def test_when_the_front_is_killed_nothing_stays_behind(when: float | str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(SLOW, Path(folder))
        try:
            if isinstance(when, float):
                time.sleep(when)
            else:
                server.wait_until_ready()
            if when == "busy":
                Stream(server.url)
            front = psutil.Process(server.process.pid)
            pids = [server.process.pid, *(child.pid for child in front.children(recursive=True))]
            front.kill()
            server.process.wait()
            wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids), 5, "the end of all processes")
            if isinstance(
                when, float
            ):  # it may have had no child yet that would remove its folder: the next start does
                with monkeypatch.context() as patch:
                    patch.setattr(tempfile, "tempdir", folder)
                    private_folder().rmdir()
            wait_for(lambda: everything_gone(pids, server), 5, "the end of all processes and files")
        finally:
            server.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", [0.1, 0.5, 1.5])
def test_a_signal_during_the_start_ends_it(signum: int, when: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(SLOW, Path(folder))
        try:
            time.sleep(when)
            code = server.stop(signum, timeout=10)
            assert code != 0 or "sgframe is ready" in server.output
            assert server.private_folders() == []
        finally:
            server.close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_the_exit_code_is_0(signum: int) -> None:
    with served(*SIMULATED, "--set", "simulated.step_seconds=0.02") as server:
        answers: list[httpx.Response] = []
        body = LONG | {"max_tokens": 60}
        client = threading.Thread(target=lambda: answers.append(httpx.post(f"{server.url}/v1/completions", json=body)))
        client.start()
        time.sleep(0.4)
        assert server.stop(signum) == 0
        client.join()
        assert answers[0].status_code == 200
        assert answers[0].json()["usage"]["completion_tokens"] == 60
        assert server.private_folders() == []


def test_a_drain_that_takes_too_long_is_cut() -> None:
    with served(*SLOW, "--drain-timeout", "0.5") as server:
        stream = Stream(server.url)
        asked = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - asked < 6
        stream.join(timeout=5)
        assert '"error"' in stream.text


def test_a_second_signal_ends_at_once(server: Server) -> None:
    Stream(server.url)
    pids = [server.process.pid, *(child.pid for child in server.children().values())]
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert server.stop(signal.SIGTERM, timeout=2) == 128 + signal.SIGTERM
    wait_for(lambda: everything_gone(pids, server), 5, "the end of all processes and files")


@pytest.mark.parametrize("name", ["scheduler", "worker-0"])
def test_health_names_a_process_that_has_stopped(server: Server, name: str) -> None:
    child = server.children()[name]
    assert server.client().get("/health").status_code == 200
    child.suspend()
    try:
        wait_for(lambda: server.client().get("/health").status_code == 503, 10, "a 503 from /health")
        assert name in server.client().get("/health").text
    finally:
        child.resume()
    wait_for(lambda: server.client().get("/health").status_code == 200, 5, "a 200 from /health")


def test_a_client_that_hangs_up_frees_its_slots(server: Server) -> None:
    def running() -> int:
        return server.client().get("/server_info").json()["stats"]["running"]

    for stream in (True, False):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(
                f"{server.url}/v1/completions", json=LONG | {"stream": stream}, timeout=httpx.Timeout(5, read=0.02)
            )
    wait_for(lambda: running() == 0, 5, "the end of both requests")
    stats = server.client().get("/server_info").json()["stats"]
    assert stats["slots_free"] + stats["slots_cached"] == stats["slots"]


def test_a_model_that_cannot_be_found_stops_the_start_with_its_reason() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(("--backend", "simulated", "--source", "simulated", "--model", "no-such-model"), Path(folder))
        try:
            assert server.process.wait(timeout=30) == 2
            assert "no-such-model" in server.output
            assert "Traceback" not in server.output
            assert server.private_folders() == []
        finally:
            server.close()


def test_a_taken_port_is_named_before_anything_is_loaded(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    with tempfile.TemporaryDirectory() as folder:
        second = Server((*SIMULATED, "--port", port), Path(folder))
        try:
            assert second.process.wait(timeout=30) == 2
            assert f"port {port}" in second.output
        finally:
            second.close()
