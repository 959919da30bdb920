"""Two running servers for the field cases: the simulated model, which repeats its prompt, and the demo model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from servers import SIMULATED, Server, served, wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(*SIMULATED, "--set", "simulated.step_seconds=0.001") as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(scope="module")
def demo() -> Iterator[httpx.Client]:
    """A client of a server with the demo model, which goes by the name ``m``."""
    options = ("--set", "cpu.threads=1", "--dtype", "float32", "--kv-slots", "4096", "--context-length", "2048")
    with served(*options, "--served-model-name", "m", start_timeout=800) as server, server.client() as client:
        yield client


class Checks:
    """What must hold after every request that might have done harm."""

    @staticmethod
    def goes_on(client: httpx.Client) -> None:
        """The server answers the next plain request rightly, and its processes are well."""
        body = {"model": "simulated", "prompt": [104, 105], "max_tokens": 4}
        good = client.post("/v1/completions", json=body)
        assert (good.status_code, good.json()["choices"][0]["text"]) == (200, "hihi")
        assert client.get("/health").status_code == 200

    @staticmethod
    def comes_to_rest(client: httpx.Client) -> dict[str, Any]:
        """Soon nothing runs or waits, and every KV slot is free or cached. Returns the stats."""
        stats: dict[str, Any] = {}

        def resting() -> bool:
            stats.update(client.get("/server_info").json()["stats"])
            return not (stats["running"] or stats["waiting"] or stats["slots_leased"])

        wait_for(resting, 10, "rest")
        assert stats["slots_free"] + stats["slots_cached"] == stats["slots"]
        return stats


@pytest.fixture(scope="session")
def checks() -> type[Checks]:
    return Checks
