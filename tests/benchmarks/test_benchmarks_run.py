"""The benchmarks run and count right. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import SIMULATED, Server, served

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LETTERS = "97:123"  # the simulated model's ids are bytes


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(*SIMULATED) as server:
        yield server


def run(program: str, *arguments: str) -> dict[str, Any]:
    """What ``benchmarks/<program> --json`` prints."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / program), "--json", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_serving_counts_requests_and_tokens_of_each_row(server: Server) -> None:
    report = run("serving.py", "--url", server.url, "--rows", "a,b", "--scale", "0.25", "--token-ids", LETTERS)
    a, b = (row["ours"] for row in report["rows"])
    assert (a["requests"], a["prompt_tokens"], a["output_tokens"]) == (2, 25, [2 * 32] * 3)
    assert (b["requests"], b["prompt_tokens"], b["output_tokens"]) == (4, 25, [4 * 32] * 3)
    assert all(figure > 0 for side in (a, b) for figure in (*side["values"], side["median"], side["ttft_ms"]))


def test_serving_compares_ours_with_a_peer_run_by_run(server: Server) -> None:
    both = ("--url", server.url, "--peer-url", server.url)
    (row,) = run("serving.py", *both, "--rows", "c", "--scale", "0.1", "--runs", "2", "--token-ids", LETTERS)["rows"]
    assert len(row["ours"]["values"]) == len(row["peer"]["values"]) == 2
    assert row["ratio"] == pytest.approx(row["ours"]["median"] / row["peer"]["median"])
    assert row["ours"]["prompt_tokens"] == row["peer"]["prompt_tokens"] == 103


def test_serving_makes_texts_of_about_the_wanted_number_of_tokens(server: Server) -> None:
    (row,) = run("serving.py", "--url", server.url, "--rows", "a", "--runs", "1")["rows"]
    assert 75 < row["ours"]["prompt_tokens"] < 125


def test_serving_counts_valid_answers_where_there_is_a_schema(server: Server) -> None:
    report = run("serving.py", "--url", server.url, "--rows", "d,dc,j", "--scale", "0.1", "--runs", "1")
    d, dc, j = (row["ours"] for row in report["rows"])
    assert (d["requests"], d["valid"], dc["valid"]) == (3, [3], None)
    assert (j["requests"], j["valid"]) == (2, [2])
    assert dc["output_tokens"] == [3 * 2]
    assert j["output_tokens"][0] > 2 * 100


def test_serving_refuses_ids_for_chats() -> None:
    command = [sys.executable, str(BENCHMARKS / "serving.py"), "--rows", "a,j", "--token-ids", LETTERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--token-ids does not go with chats (rows j)" in done.stderr


def test_serving_starts_and_ends_a_server_for_each_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = " ".join([sys.executable, "-m", "sgframe", "serve", "--port", str(port), *SIMULATED])
    (row,) = run("serving.py", "--url", url, "--serve", command, "--rows", "b", "--runs", "2", "--scale", "0.1")["rows"]
    assert row["ours"]["output_tokens"] == [2 * 13] * 2
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_serving_says_why_a_server_did_not_start() -> None:
    command = [sys.executable, str(BENCHMARKS / "serving.py"), "--url", "http://127.0.0.1:9", "--serve", "ls /nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "before it was ready" in done.stderr
    assert "/nowhere" in done.stderr


def test_scheduler_times_each_part_of_its_step() -> None:
    report = run("scheduler.py", "--running", "4", "--steps", "20")
    decode, arrivals = report["step_costs"]
    assert decode["running"] == 4
    assert 0 < arrivals["running"] <= 4
    for cost in (decode, arrivals):
        assert 0 < cost["plan"]["median"] < cost["total"]["median"]
        assert 0 < cost["apply"]["median"] < cost["total"]["median"]
    assert report["end_to_end"]["tokens_per_second"] > 0
