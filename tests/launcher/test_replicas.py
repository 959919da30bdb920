"""Replicas behind one front, in real processes: prefixes find their replica, a killed one's requests move."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from replica_loss import answers_while_killing, assert_only_begun_answers_fail
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
    assert children.keys() - {"compiling"} == {"scheduler@0", "scheduler@1", "worker-0@0", "worker-0@1"}
    answers = answers_while_killing(children["worker-0@1"].kill, server)
    assert_only_begun_answers_fail(answers, begun=2)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_a_killed_replica_comes_back_and_takes_the_place_of_the_other(server: Server) -> None:
    everybody = ["front", "scheduler@0", "scheduler@1", "worker-0@0", "worker-0@1"]

    def serving() -> list[str]:
        return sorted(httpx.get(f"{server.url}/health").json()["processes"])

    wait_for(lambda: serving() == everybody, 30, "the return of the replica")
    for lost in ("worker-0@0", "scheduler@1"):
        before = server.children()
        before[lost].kill()
        wait_for(lambda: len(serving()) == 3, 10, "the loss")
        assert 'sgframe_replicas{state="lost"} 1.0' in httpx.get(f"{server.url}/metrics").text
        body = {"model": "simulated", "prompt": "abc", "max_tokens": 4}
        assert httpx.post(f"{server.url}/v1/completions", json=body, timeout=60).json()["choices"][0]["text"] == "abc"
        wait_for(lambda: serving() == everybody, 30, "the return of the replica")
        assert server.children()[lost].pid != before[lost].pid
    assert len(server.private_folders()) == 2


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
