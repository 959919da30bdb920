"""Hub ids, against a small hub on the loopback: what is fetched, what is left, and what a failure says."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

COMMIT = "c" * 40
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"w" * 100_000,
    "consolidated.safetensors": b"w" * 10,
    "pytorch_model.bin": b"w" * 10,
    "onnx/model.json": b"{}",
    "README.md": b"read me",
}
MODELS: dict[str, dict[str, bytes]] = {"org/full": FILES, "org/only-gguf": {"m-q4.gguf": b"GGUF"}}


class Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"] and (files := MODELS.get("/".join(parts[2:4]))) is not None:
            tree = [{"type": "file", "path": name, "size": len(data), "oid": name} for name, data in files.items()]
            siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            info = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings}
            self._json(tree if parts[4:5] == ["tree"] else info)
        elif parts[2:3] == ["resolve"] and (files := MODELS.get("/".join(parts[:2]))) is not None:
            self._send(200, files["/".join(parts[4:])], {"ETag": f'"{parts[-1]}"', "X-Repo-Commit": COMMIT})
        else:
            code = "GatedRepo" if parts[-1] == "gated" else "RepoNotFound"
            self._send(403 if code == "GatedRepo" else 404, b"", {"X-Error-Code": code})

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(endpoint: str, home: Path, repo: str, *, offline: bool = False) -> dict[str, Any]:
    """The outcome of a fetch, in a process of its own: the hub library reads its endpoint once, at import."""
    script = (
        "import json, sys; from pathlib import Path; from sgframe_hf.hub import fetch_from_hub\n"
        "from sgframe.errors import ModelError; seen = []\n"
        "try:\n"
        f"    folder = fetch_from_hub({repo!r}, '', offline={offline}, progress=lambda *a: seen.append(a))\n"
        "    print(json.dumps({'files': sorted(p.name for p in Path(folder).rglob('*')), 'seen': seen}))\n"
        "except ModelError as error:\n"
        "    print(json.dumps({'error': str(error)}))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


def test_weights_and_json_files_are_fetched_and_nothing_else(hub: str, tmp_path: Path) -> None:
    assert fetch(hub, tmp_path, "org/full")["files"] == ["config.json", "model.safetensors"]


def test_progress_reaches_the_size_of_what_is_fetched(hub: str, tmp_path: Path) -> None:
    assert fetch(hub, tmp_path, "org/full")["seen"][-1] == ["fetching org/full from the hub", 100_002, 100_002]


def test_what_was_fetched_is_found_again_without_the_hub(hub: str, tmp_path: Path) -> None:
    fetch(hub, tmp_path, "org/full")
    assert fetch("http://127.0.0.1:9", tmp_path, "org/full")["files"] == ["config.json", "model.safetensors"]
    assert fetch(hub, tmp_path, "org/full", offline=True)["files"] == ["config.json", "model.safetensors"]


@pytest.mark.parametrize(
    ("repo", "says"),
    [
        ("org/none", "the hub has no model org/none"),
        ("org/gated", "is gated: accept its terms"),
        ("org/only-gguf", "download one of its GGUF files (m-q4.gguf, …)"),
    ],
)
def test_the_hubs_refusal_is_explained(hub: str, tmp_path: Path, repo: str, says: str) -> None:
    assert says in fetch(hub, tmp_path, repo)["error"]


def test_a_hub_that_cannot_be_reached_is_named_with_the_remedy(tmp_path: Path) -> None:
    error = fetch("http://127.0.0.1:9", tmp_path, "org/full")["error"]
    assert "the hub cannot be reached" in error
    assert "pass the path of a model folder" in error


def test_offline_the_hub_is_not_asked(hub: str, tmp_path: Path) -> None:
    assert "set to offline" in fetch(hub, tmp_path, "org/full", offline=True)["error"]
