"""Replicas behind one front, in real processes: prefixes find their replica, a killed one's requests move."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from servers import SIMULATED, Server, served, wait_for

from sgframe import Engine, SamplingParams
from sgframe.assembly.settings import read_settings
from sgframe.errors import ConfigError

SIMULATED_PARTS = {"model": "simulated", "backend": "simulated", "source": "simulated"}


@pytest.mark.parametrize("transport", ["inproc", "zmq"])
def test_replicas_are_one_engine_and_a_prefix_finds_its_replica(transport: str) -> None:
    with Engine(**SIMULATED_PARTS, transport=transport, replicas=2, kv_slots=4096) as engine:
        prompts = [letter * 200 for letter in "abcd"]
        first = engine.generate(prompts, SamplingParams(max_tokens=4))
        assert [result.text for result in first] == [letter * 3 for letter in "abcd"]
        again = [engine.generate(prompt + "!", SamplingParams(max_tokens=1)) for prompt in prompts]
        assert [result.outputs[0].usage.cached_tokens for result in again] == [201] * 4
        assert engine.describe_cache().total_tokens >= 800
        assert engine.flush_cache() >= 800


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(*SIMULATED, "--replicas", "2", "--set", "simulated.step_seconds=0.05", "--max-running", "2") as server:
        yield server


def test_when_a_replica_is_killed_no_request_that_has_not_begun_is_lost(server: Server) -> None:
    children = server.children()
    assert sorted(children) == ["scheduler@0", "scheduler@1", "worker-0@0", "worker-0@1"]
    answers: list[httpx.Response] = []

    def ask(number: int) -> None:
        body = {"model": "simulated", "prompt": f"{number} says abc", "max_tokens": 12}
        answers.append(httpx.post(f"{server.url}/v1/completions", json=body, timeout=60))

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for client in clients:
        client.start()
    wait_for(lambda: len(answers) >= 2, 20, "the first answers")
    children["worker-0@1"].kill()
    for client in clients:
        client.join(timeout=60)
    assert len(answers) == 12
    failed = [answer.json()["error"]["message"] for answer in answers if answer.status_code != 200]
    assert len(failed) <= 2  # those that were running there
    assert all("replica 1 was lost after" in message and "SIGKILL" in message for message in failed)
    wait_for(lambda: "scheduler@1" not in server.children(), 10, "the end of the rest of the replica")
    assert sorted(httpx.get(f"{server.url}/health").json()["processes"]) == ["front", "scheduler@0", "worker-0@0"]
    assert httpx.get(f"{server.url}/health").status_code == 200
    assert len(server.private_folders()) == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"journal": "j"}, "replicas is 2 and journal is 'j', which is for one replica only"),
        ({"nnodes": 2, "tp_size": 2, "dist_addr": "a:1"}, "replicas is 2 and nnodes is 2"),
        ({"replicas": 0}, "replicas"),
    ],
)
def test_what_does_not_go_with_replicas_is_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_settings({"replicas": 2, **more})
