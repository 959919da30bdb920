"""What becomes of requests when a replica of a server is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx
from servers import Server, wait_for


def answers_while_killing(kill: Callable[[], None], server: Server) -> list[httpx.Response]:
    """Ask for twelve answers at once, and ``kill`` when two of them have come."""
    answers: list[httpx.Response] = []

    def ask(number: int) -> None:
        body = {"model": "simulated", "prompt": f"{number} says abc", "max_tokens": 12}
        answers.append(httpx.post(f"{server.url}/v1/completions", json=body, timeout=60))

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for client in clients:
        client.start()
    wait_for(lambda: len(answers) >= 2, 20, "the first answers")
    kill()
    for client in clients:
        client.join(timeout=60)
    return answers


def assert_only_begun_answers_fail(answers: list[httpx.Response], begun: int) -> None:
    """All twelve are there; at most ``begun`` of them are errors, which name replica 1 and what it died of."""
    assert len(answers) == 12
    failed = [answer.json()["error"]["message"] for answer in answers if answer.status_code != 200]
    assert len(failed) <= begun
    assert all("replica 1 was lost after" in message and "SIGKILL" in message for message in failed)
