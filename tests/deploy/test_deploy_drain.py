"""What a load balancer sees of a server that is told to end: first that it takes no more, then its last answers."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
from servers import SIMULATED, served, wait_for

SLOW = (*SIMULATED, "--set", "simulated.step_seconds=0.02")
TOKENS = 60
"""Of four, one ends the echoed prompt and has no text."""
BODY = {"model": "simulated", "prompt": "abc", "max_tokens": TOKENS, "ignore_eos": True, "stream": True}


def test_sigterm_makes_health_503_first_and_lets_what_runs_finish() -> None:
    with served(*SLOW, "--drain-timeout", "30") as server, server.client() as client, ThreadPoolExecutor(1) as pool:
        assert client.get("/health").json()["status"] == "ok"
        answer = pool.submit(lambda: httpx.post(f"{server.url}/v1/completions", json=BODY, timeout=100).text)
        wait_for(lambda: "sgframe_requests_running 1.0" in client.get("/metrics").text, 20, "the request's start")

        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: client.get("/health").status_code == 503, 10, "the refusal")
        health, refused = client.get("/health"), client.post("/v1/completions", json=BODY)

        assert health.json()["status"] == "draining"
        assert health.json()["error"]["message"] == "the server is shutting down and takes no new requests"
        assert all(process["alive"] for process in health.json()["processes"].values())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        events = [event.removeprefix("data: ") for event in answer.result().strip().split("\n\n")]
        choices = [json.loads(event)["choices"][0] for event in events[:-1]]
        assert "".join(choice["text"] for choice in choices) == "abc" * (TOKENS // 4)
        assert (choices[-1]["finish_reason"], events[-1]) == ("length", "[DONE]")
        assert server.process.wait(20) == 0
