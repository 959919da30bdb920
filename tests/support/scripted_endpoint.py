"""An OpenAI-compatible endpoint that answers what a test tells it to, on a free port of the loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """``cut``: the connection ends before the answer does. ``silent``: nothing is said until the endpoint closes."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    cut: bool = False
    silent: bool = False


def as_json(body: Any, status: int = 200) -> Reply:
    return Reply(json.dumps(body).encode(), status)


def events(*chunks: Any, cut: bool = False) -> Reply:
    """A stream of ``chunks``, as JSON with nothing escaped; ``[DONE]`` follows unless it is cut."""
    data = [json.dumps(chunk, ensure_ascii=False).encode() for chunk in chunks] + ([] if cut else [b"[DONE]"])
    return Reply(b"".join(b"data: " + line + b"\n\n" for line in data), kind="text/event-stream", cut=cut)


def completion(*texts: str, **usage: Any) -> Reply:
    """A text completion with outputs ``texts``."""
    choices = [{"index": i, "text": text, "finish_reason": "stop"} for i, text in enumerate(texts)]
    return as_json({"choices": choices, "usage": {"prompt_tokens": 7, "completion_tokens": 2, **usage}})


def chat(text: str) -> Reply:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    return as_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


class Endpoint:
    """Answers the requests to complete in order by ``replies``, the last one again and again, and lists ``models``.

    ``requests`` are the (path, body) it received; ``headers`` those of the last one. ``script``, if set, answers instead.
    """

    def __init__(self) -> None:
        self.released = threading.Event()
        self.forget()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, body in self.requests]

    def forget(self) -> None:
        """Start anew, for the next test."""
        self.models = ["m"]
        self.replies: list[Reply] = [completion(" Paris")]
        self.script: Callable[[dict[str, Any]], Reply] | None = None
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.headers: dict[str, str] = {}
        self.arrived = threading.Event()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, body: dict[str, Any]) -> Reply:
        if self.script is not None:
            return self.script(body)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(as_json({"data": [{"id": name} for name in endpoint.models]}))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, body))
                endpoint.headers = dict(self.headers.items())
                endpoint.arrived.set()
                self._send(endpoint._answer(body))

            def _send(self, reply: Reply) -> None:
                if reply.silent:
                    endpoint.released.wait()
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(reply.body) + reply.cut))
                self.end_headers()
                self.wfile.write(reply.body)
                self.close_connection = reply.cut

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextmanager
def scripted_endpoint() -> Iterator[Endpoint]:
    """One for a test."""
    endpoint = Endpoint()
    try:
        yield endpoint
    finally:
        endpoint.close()
