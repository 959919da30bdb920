"""``sgframe tree``: how the hot prefixes of a server are drawn, and what is said when there is nothing to draw."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from servers import SIMULATED, served

from sgframe_cli.group import main
from sgframe_cli.tree import drawn
from sgframe_openai.cached_tree import CachedTree, TreeNode

NODES = [
    TreeNode(id=2, tokens=1700, reused=34_050, locks=1, hits=20, age=1.5, text="You are\n\x1b[31mhelpful"),
    TreeNode(id=4, parent=2, tokens=10, reused=50, locks=0, hits=5, age=60.0, text="[bold]Hi"),
    TreeNode(id=3, tokens=4, reused=0, locks=0, hits=0, age=3.0, namespace={"salt": "12ab34cd"}, text="abcd"),
]
TREE = CachedTree("radix", 9, 2000, True, NODES)


@pytest.fixture
def answering() -> Iterator[Callable[[int, Any], tuple[str, list[BaseHTTPRequestHandler]]]]:
    """Makes a server that answers everything with a status and a body; its address and the requests it got."""
    servers: list[ThreadingHTTPServer] = []

    def make(status: int, body: Any) -> tuple[str, list[BaseHTTPRequestHandler]]:
        requests: list[BaseHTTPRequestHandler] = []
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self)
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}", requests

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def sgframe_tree(*arguments: str, **environ: str | None) -> Result:
    return CliRunner(env={"SGFRAME_API_KEY": None, **environ}).invoke(main, ["tree", *arguments])


def envelope(message: str, code: str = "") -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}}).encode()


def guides(*nodes: tuple[int, int | None]) -> list[str]:
    """The drawing of nodes given as (id, parent), each node by its id."""
    drawing = drawn([TreeNode(id, 1, 0, 0, 0, 0.0, parent=parent) for id, parent in nodes])
    return [f"{guide}{node.id}" for guide, node in drawing]


# ------------------------------------------------------------------------------------------ the drawing


def test_the_tree_is_drawn_hottest_first(answering: Any) -> None:
    url, _ = answering(200, TREE)
    run = sgframe_tree("--url", url)
    assert [line.rstrip() for line in run.output.splitlines()] == [
        f"{url}: cache radix, 3 of 9 prefixes shown, 1,714 of 2,000 tokens",
        "TOKENS  HITS  REUSED  LOCKS  AGE/s  PREFIX",
        r" 1,700    20  34,050      1    1.5  ├ 'You are\n\x1b[31mhelpful'",
        "    10     5      50      0   60.0  │ · '[bold]Hi'",
        "     4     0       0      0    3.0  └ 'abcd' [salt 12ab34cd]",
    ]
    assert run.exit_code == 0


def test_without_text_a_prefix_goes_by_its_number(answering: Any) -> None:
    url, _ = answering(200, CachedTree("radix", 1, 5, False, [TreeNode(7, 5, 0, 0, 0, 0.0)]))
    assert sgframe_tree("--url", url).output.split()[-2:] == ["·", "#7"]


def test_an_empty_cache_is_said_to_be_empty(answering: Any) -> None:
    url, _ = answering(200, CachedTree("none", 0, 0, False, []))
    assert sgframe_tree("--url", url).output == f"{url}: cache none, 0 of 0 prefixes shown, 0 of 0 tokens\n"


def test_siblings_branch_and_an_only_child_does_not_indent() -> None:
    assert guides((1, None), (2, 1), (3, 2), (4, 2), (5, 3), (6, 5), (7, 4)) == [
        "· 1",
        "· 2",
        "├ 3",
        "│ · 5",
        "│ · 6",
        "└ 4",
        "  · 7",
    ]


def test_a_chain_of_ten_thousand_is_drawn() -> None:
    assert guides((0, None), *((i, i - 1) for i in range(1, 10_000)))[-1] == "· 9999"


# ------------------------------------------------------------------------------------------ the question


def test_limit_and_key_are_sent(answering: Any) -> None:
    url, requests = answering(200, TREE)
    sgframe_tree("--url", url + "/", "--limit", "7", "--api-key", "sésame")
    assert requests[0].path == "/debug/tree?limit=7"
    assert requests[0].headers["Authorization"].encode("latin-1") == "Bearer sésame".encode()


def test_the_key_of_the_environment_is_sent(answering: Any) -> None:
    url, requests = answering(200, TREE)
    sgframe_tree("--url", url, SGFRAME_API_KEY="open")
    assert requests[0].headers["Authorization"] == "Bearer open"


# ------------------------------------------------------------------------------------------ what can be wrong


def test_no_server_is_said_to_be_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    run = sgframe_tree("--url", url)
    assert (run.exit_code, run.stdout) == (1, "")
    assert f"no server answers at {url}" in run.stderr
    assert "start one by sgframe serve" in run.stderr


@pytest.mark.parametrize("url", ["localhost:30000", "ftp://localhost", "http://[", "http://a..b", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    run = sgframe_tree("--url", url)
    assert run.exit_code == 1
    assert f"no server answers at {url}" in run.stderr


def test_a_server_that_does_not_show_its_tree_says_how_to_allow_it(answering: Any) -> None:
    url, _ = answering(404, envelope("start it with --debug-tree lengths", "debug_tree_off"))
    run = sgframe_tree("--url", url)
    assert (run.exit_code, run.stderr) == (1, f"Error: {url}: start it with --debug-tree lengths\n")


@pytest.mark.parametrize("key", [(), ("--api-key", "x")])
def test_a_key_that_does_not_open_is_told_where_to_go(answering: Any, key: tuple[str, ...]) -> None:
    url, _ = answering(401, envelope("the API key is wrong; send it as 'Authorization: Bearer KEY'"))
    run = sgframe_tree("--url", url, *key)
    assert run.exit_code == 1
    expected = f"{url}: the API key is wrong; give it by --api-key or the variable SGFRAME_API_KEY"
    assert run.stderr == f"Error: {expected}\n"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b'{"nodes": 5}'),
        (404, b"not found"),
        (404, b"\xff"),
        (500, b"[]"),
        (404, b'{"detail": "Not Found"}'),
        (302, b""),
    ],
)
def test_another_kind_of_server_is_seen(answering: Any, status: int, body: bytes) -> None:
    url, _ = answering(status, body)
    run = sgframe_tree("--url", url)
    assert run.exit_code == 1
    assert run.stderr == f"Error: {url} answers, but not as sgframe does (status {status}); is it one?\n"


def test_a_limit_below_one_is_refused() -> None:
    assert "Invalid value for '--limit'" in sgframe_tree("--limit", "0").stderr


def test_a_real_server_s_tree_is_drawn() -> None:
    with served(*SIMULATED, "--debug-tree", "text") as server, server.client() as client:
        client.post("/v1/completions", json={"model": "simulated", "prompt": "hello", "max_tokens": 1})
        run = sgframe_tree("--url", server.url)
    assert "cache radix, 1 of 1 prefixes shown" in run.output
    assert "'<|bos|>hello" in run.output
