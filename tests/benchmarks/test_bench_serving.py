"""``serving.py`` against the simulated backend: every row runs and is counted right. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import SIMULATED, Server, served
from tokenizers import Tokenizer, decoders, models

SERVING = Path(__file__).parents[2] / "benchmarks" / "serving.py"
LETTERS = "97:123"  # the simulated model's ids are bytes
CANNED = Path(__file__).parents[1] / "support" / "canned_server.py"
START = f"{sys.executable} {CANNED} {{port}}"
ONCE = ("--runs", "1", "--scale", "0.1")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(*SIMULATED) as server:
        yield server


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SERVING), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def report(*arguments: str) -> dict[str, Any]:
    done = call("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def engine(report: dict[str, Any], name: str = "ours") -> list[dict[str, Any]]:
    """Its figures in each row."""
    return [row["engines"][name] for row in report["rows"]]


def test_requests_and_tokens_of_each_row_are_counted(server: Server) -> None:
    a, b, k = engine(
        report("--url", server.url, "--rows", "a,b,k", "--scale", "0.25", "--runs", "2", "--token-ids", LETTERS)
    )
    assert (a["requests"], a["prompt_tokens"], a["output_tokens"]) == (2, 25, [2 * 32] * 2)
    assert (b["requests"], b["prompt_tokens"], b["output_tokens"]) == (4, 25, [4 * 32] * 2)
    assert (k["requests"], k["prompt_tokens"], k["output_tokens"]) == (1, 2000, [16] * 2)
    for side in (a, b, k):
        assert all(figure > 0 for figure in (*side["values"], side["median"]))
        assert 0 < side["ttft_ms"] <= side["ttft_p99_ms"]


def test_chats_and_programs_are_counted(server: Server) -> None:
    d, dc, dw, j, m, s = engine(report("--url", server.url, "--rows", "d,dc,dw,j,m,s", *ONCE))
    assert (d["requests"], d["valid"], dw["valid"], dc["valid"]) == (3, [3], [3], None)
    assert (j["requests"], j["valid"]) == (2, [2])
    assert dc["output_tokens"] == [3 * 2]
    assert (m["requests"], m["output_tokens"]) == (2 * 6, [2 * 6 * 6])
    assert s["requests"] == 1 + 1
    assert s["ttft_ms"] is None
    assert s["output_tokens"][0] > 2 * 4 * 32


def test_ours_is_compared_with_a_peer_run_by_run(server: Server) -> None:
    both = ("--url", server.url, "--peer-url", server.url)
    told = report(*both, "--rows", "c,s", "--scale", "0.1", "--runs", "2")
    ours, peer = engine(told), engine(told, "peer")
    assert [len(side["values"]) for side in (*ours, *peer)] == [2] * 4
    assert told["ratios"] == {
        row: pytest.approx(one["median"] / other["median"])
        for row, one, other in zip(("c", "s"), ours, peer, strict=True)
    }
    assert ours[0]["prompt_tokens"] == peer[0]["prompt_tokens"]
    assert 80 < ours[0]["prompt_tokens"] < 130, "texts of about the wanted number of tokens"


def test_ids_are_refused_for_texts() -> None:
    done = call("--rows", "a,j,s", "--token-ids", LETTERS)
    assert done.returncode == 2
    assert "--token-ids does not go with rows j,s" in done.stderr


def test_a_server_is_started_and_ended_for_each_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = call("--serve", START, "--rows", "b", "--runs", "2", "--scale", "0.1", "--json", str(figures))
    assert done.returncode == 0, done.stderr
    told = json.loads(figures.read_text())
    assert engine(told)[0]["output_tokens"] == [2 * 13] * 2
    assert [0 < seconds < 60 for seconds in told["servers"]["ours"]["seconds_to_ready"]] == [True] * 2
    assert [5e6 < size < 1e9 for size in told["servers"]["ours"]["memory_bytes"]] == [True] * 2
    assert "16 at once" in done.stdout


def test_why_a_server_did_not_start_is_told_and_the_others_go_on() -> None:
    done = call("--serve", "ls /nowhere/{port}", "--peer-serve", START, "--rows", "a", *ONCE)
    assert done.returncode == 1
    assert "ours failed, run 1: it ended with code 2 before it was ready" in done.stdout
    assert "/nowhere" in done.stdout
    assert "run 1, peer, row a" in done.stderr


@pytest.mark.slow  # measures the machine's limits, too
def test_named_peers_are_started_by_their_descriptors_and_the_missing_told(tmp_path: Path) -> None:
    checkpoint, peers, plot = small_checkpoint(tmp_path / "small"), tmp_path / "peers", tmp_path / "plot.svg"
    (peers / "other").mkdir(parents=True)
    (peers / "other" / "bin").symlink_to(Path(sys.executable).parent)
    (peers / "other.toml").write_text(
        f'title = "Other"\ncommand = "{{python}} {CANNED} {{port}}"\npackage = "pip"\n[cannot]\na = "it is alone"\n'
    )
    options = ("--peers-dir", str(peers), "--checkpoint", str(checkpoint), "--quiet-seconds", "0", "--plot", str(plot))
    told = report("--peer", "other,vllm", *options, "--serve", START, "--rows", "a,b,k", *ONCE)
    assert set(told["ratios"]) == {"b", "k"}
    assert told["servers"]["other"]["left_out"] == {"a": "it is alone"}
    assert told["weights_bytes"] == 1000
    assert told["limits"][0]["read_bytes_per_second"] > 1e9
    assert f"there is no {peers}/vllm/bin/python" in told["not_installed"][0]
    assert 100 < engine(told)[2]["prompt_tokens"] < 300, "cut to the model's context"
    assert "best peer" in plot.read_text()


def small_checkpoint(folder: Path) -> Path:
    """One with all that the benchmark looks at, of a context of 300 tokens."""
    folder.mkdir()
    (folder / "config.json").write_text('{"vocab_size": 2, "max_position_embeddings": 300}')
    (folder / "model.safetensors").write_bytes(bytes(1000))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
