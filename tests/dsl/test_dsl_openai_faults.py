"""``sgf.OpenAI``: endpoints that refuse, break off, say nothing or are not there; and calls that are ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from backend_calls import GREEDY, generate, run, start
from scripted_endpoint import Endpoint, Reply, as_json, completion, events, scripted_endpoint

from sgframe.constraints import Constraint
from sgframe.errors import ContextLengthExceeded, Overloaded, RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.openai import OpenAI
from sgframe_dsl.errors import BackendClosed, BackendError
from sgframe_programs.parts import Text


@pytest.fixture(scope="module")
def backend(served_endpoint: Endpoint) -> Iterator[OpenAI]:
    backend = OpenAI(served_endpoint.url)
    yield backend
    backend.close()


@pytest.mark.parametrize("on_text", [None, lambda text: None])
@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (
            Reply(b"<html>\n<h1>Oh  no</h1>" + b"x" * 999, 500, "text/html"),
            BackendError,
            r"http://127.*/v1/completions answered 500 Internal Server Error: <html> <h1>Oh no</h1>x+…$",
        ),
        (as_json({"error": {"message": "too many", "type": "t"}}, 429), Overloaded, "429 Too Many Requests: too many"),
        (Reply(b"busy", 503, "text/plain"), Overloaded, "503 Service Unavailable: busy"),
        (as_json({"error": "all broken"}, 500), BackendError, "500 Internal Server Error: all broken"),
        (as_json({"object": "error", "message": "no such field", "code": 400}, 400), RequestError, "^no such field$"),
        (as_json({"detail": "Not Found"}, 404), BackendError, '404 Not Found: {"detail": "Not Found"}'),
        (Reply(b"", 502), BackendError, r"502 Bad Gateway: \(nothing\)"),
    ],
)
def test_a_status_that_is_an_error_is_one(
    backend: OpenAI, endpoint: Endpoint, reply: Reply, kind: type[Exception], said: str, on_text: Any
) -> None:
    endpoint.replies = [reply]
    with pytest.raises(kind, match=said) as caught:
        generate(backend, Text("a"), on_text=on_text)
    assert "\n" not in str(caught.value)


def test_openai_s_envelope_keeps_its_fields(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.replies = [as_json({"error": {"message": "top_k?", "param": "top_k", "code": "unknown"}}, 400)]
    with pytest.raises(RequestError) as caught:
        generate(backend, Text("a"))
    assert (str(caught.value), caught.value.param, caught.value.code) == ("top_k?", "top_k", "unknown")
    endpoint.replies = [as_json({"error": {"message": "long", "code": "context_length_exceeded"}}, 400)]
    with pytest.raises(ContextLengthExceeded, match="long"):
        generate(backend, Text("a"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"<html>hello</html>"), "answered what OpenAI's protocol does not have.*<html>hello"),
        (as_json({"choices": "none"}), "answered what OpenAI's protocol does not have"),
        (as_json({"choices": []}), "before output 1 of 1 was complete"),
        (completion("a", "b"), "gave output 1 where 1 were asked for"),
        (
            as_json({"choices": [{"index": 0, "text": "a", "finish_reason": "content_filter"}]}),
            "for the reason 'content_filter'",
        ),
        (as_json({"error": {"message": "out of memory"}}), "failed: out of memory"),
    ],
)
def test_an_answer_that_is_none_is_an_error(backend: OpenAI, endpoint: Endpoint, reply: Reply, said: str) -> None:
    endpoint.replies = [reply]
    with pytest.raises(BackendError, match=said):
        generate(backend, Text("a"))


PIECE = {"choices": [{"index": 0, "text": "a", "finish_reason": None}]}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (events(PIECE, cut=True), "broke off before its answer was complete"),
        (events(PIECE), "before output 1 of 1 was complete"),
        (events(PIECE, {"error": {"message": "the engine is down"}}), "failed: the engine is down"),
    ],
)
def test_a_stream_that_breaks_off_is_an_error(backend: OpenAI, endpoint: Endpoint, reply: Reply, said: str) -> None:
    endpoint.replies = [reply]
    with pytest.raises(BackendError, match=said):
        generate(backend, Text("a"), on_text=lambda text: None)


def test_an_endpoint_that_ignores_choices_is_found_out(backend: OpenAI, endpoint: Endpoint) -> None:
    params = SamplingParams(max_tokens=8, constraint=Constraint("choice", '["yes", "no"]'))
    with pytest.raises(BackendError, match="' Paris', which is none of the choices"):
        generate(backend, Text("a"), params=params)


def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    with scripted_endpoint() as gone:
        pass
    with (
        closing(OpenAI(gone.url)) as backend,
        pytest.raises(BackendError, match=r"cannot be reached.*is the server running"),
    ):
        generate(backend, Text("a"))


def test_an_endpoint_that_says_nothing_is_given_up(endpoint: Endpoint) -> None:
    endpoint.replies = [Reply(silent=True)]
    with (
        closing(OpenAI(endpoint.url, timeout=0.1)) as backend,
        pytest.raises(BackendError, match=r"said nothing for 0\.1 s"),
    ):
        generate(backend, Text("a"))


def test_an_endpoint_without_models_needs_one_named(endpoint: Endpoint) -> None:
    endpoint.models = []
    with closing(OpenAI(endpoint.url)) as backend, pytest.raises(BackendError, match="give the backend a model="):
        generate(backend, Text("a"))


def test_discarding_a_state_ends_what_runs_on_it(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.replies = [Reply(silent=True)]
    state = run(backend, backend.open())
    running = backend.schedule(backend.generate(state, [Text("a")], GREEDY))
    assert endpoint.arrived.wait(10)
    run(backend, backend.discard([state, 99]))
    with pytest.raises(BackendClosed, match="discarded while a call ran on it"):
        running.result(10)
    with pytest.raises(BackendClosed, match="discarded"):
        run(backend, backend.extend(state, []))


def test_closing_ends_what_runs(endpoint: Endpoint) -> None:
    backend = OpenAI(endpoint.url)
    endpoint.replies = [Reply(silent=True)]
    running = start(backend, Text("a"))
    assert endpoint.arrived.wait(10)
    began = time.monotonic()
    backend.close()
    with pytest.raises(BackendClosed):
        running.result(10)
    assert time.monotonic() - began < 5
