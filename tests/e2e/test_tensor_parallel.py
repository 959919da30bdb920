"""Three ranks serve SmolLM2, which has 9 heads and 3 KV heads; and what a user sees when ranks cannot, or no longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from servers import Server, served, wait_for

ARGUMENTS = ("--model", "smollm2-135m", "--dtype", "float32", "--set", "cpu.threads=1", "--kv-memory", "64MiB")
pytestmark = pytest.mark.timeout(900)  # the first use fetches and converts the model


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Ended by the last test of this module."""
    with served(*ARGUMENTS, "--tp-size", "3", start_timeout=800) as server:
        yield server


def complete(client: httpx.Client, prompt: str, **options: object) -> str:
    body = {"model": "smollm2-135m", "prompt": prompt, "max_tokens": 8, "temperature": 0, **options}
    answer = client.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_each_rank_is_a_process(server: Server) -> None:
    ranks = [name for name in server.children() if name != "compiling"]  # which may have been started ahead, or not yet
    assert sorted(ranks) == ["scheduler", "worker-0", "worker-1", "worker-2"]


def test_the_text_is_that_of_one_rank(server: Server) -> None:
    with server.client() as client:
        texts = [complete(client, "The capital of France is") for _ in range(2)]  # computed, then from the cache
    assert texts == [" Paris.\n\nThe answer is:"] * 2


def test_constraints_hold(server: Server) -> None:
    with server.client() as client:
        assert complete(client, "A number: ", max_tokens=16, regex="1(2)3[45]6789") in ("12346789", "12356789")


def test_a_rank_that_is_killed_ends_the_service_at_once_and_is_named(server: Server) -> None:
    children = server.children()
    body = {"model": "smollm2-135m", "prompt": "Once", "max_tokens": 4000, "stream": True, "ignore_eos": True}
    with server.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data:")
        children["worker-2"].kill()
        killed = time.monotonic()
        told = next(line for line in lines if "error" in line)
    assert time.monotonic() - killed < 2.0
    assert "rank 2" in told or "worker-2" in told
    assert server.process.wait(20) == 1
    assert [child for child in children.values() if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
    assert server.private_folders() == []


def test_ranks_that_do_not_divide_the_heads_are_refused_with_the_numbers(short_path: Path) -> None:
    server = Server((*ARGUMENTS, "--tp-size", "2"), short_path)
    try:
        wait_for(lambda: server.process.poll() is not None, 800)
        assert server.process.returncode not in (0, None)
        assert "2 ranks cannot divide this model: its 9 attention heads (with 3 KV heads)" in server.output
        assert server.private_folders() == []
    finally:
        server.close()
