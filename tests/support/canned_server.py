"""``python canned_server.py PORT``: starts at once, and completes a text by as many words as it is asked for."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._begin()
        self.wfile.write(json.dumps({"data": [{"id": "canned"}]}).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._begin()
        for _ in range(asked["max_tokens"]):
            self._tell(choices=[{"text": " word"}])
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": asked["max_tokens"]}
        self._tell(choices=[{"text": "", "finish_reason": "length"}], usage=usage)

    def _begin(self) -> None:
        self.send_response(200)
        self.end_headers()

    def _tell(self, **chunk: Any) -> None:
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
