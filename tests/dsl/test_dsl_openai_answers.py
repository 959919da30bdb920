"""``sgf.OpenAI``: what it makes of an answer, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from backend_calls import QUESTION, generate, run
from scripted_endpoint import Endpoint, as_json, completion, events

from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.openai import OpenAI
from sgframe_programs.parts import Cost, Output, Text


@pytest.fixture(scope="module")
def backend(served_endpoint: Endpoint) -> Iterator[OpenAI]:
    backend = OpenAI(served_endpoint.url)
    yield backend
    backend.close()


def test_several_outputs_come_and_the_text_goes_on_with_the_first(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.replies = [completion(" one", " two")]
    state = run(backend, backend.open())
    generated = run(backend, backend.generate(state, [Text("a")], SamplingParams(n=2, max_tokens=4)))
    run(backend, backend.extend(state, [Text("!")]))
    assert [output.text for output in generated.outputs] == [" one", " two"]
    run(backend, backend.generate(state, [], SamplingParams(n=2, max_tokens=4)))
    assert endpoint.bodies[1]["prompt"] == "a one!"


def test_the_cost_has_what_the_endpoint_tells(backend: OpenAI, endpoint: Endpoint) -> None:
    sgframe = {"forced_tokens": 1, "cache": {"matched": 5, "reason": "last_token"}, "approximations": ["#: x"]}
    endpoint.replies = [completion("a", prompt_tokens_details={"cached_tokens": 5}, sgframe=sgframe)]
    generated = generate(backend, Text("a"))
    assert generated.cost == Cost(7, 5, 2, forced_tokens=1, cache_reason="last_token")
    assert generated.approximations == ("#: x",)


@pytest.mark.parametrize("name", ["matched_stop", "stop_reason"])
def test_what_stopped_an_output_is_told(backend: OpenAI, endpoint: Endpoint, name: str) -> None:
    endpoint.replies = [as_json({"choices": [{"index": 0, "text": "a", "finish_reason": "stop", name: "\n"}]})]
    assert generate(backend, Text("a")).outputs == [Output("a", [], "stop", "\n")]


def test_logprobs_of_texts_and_chats_are_read(backend: OpenAI, endpoint: Endpoint) -> None:
    text = {"tokens": ["a"], "token_logprobs": [-2.0], "top_logprobs": [{"a": -2.0, "b": -1.0}], "text_offset": [0]}
    top = [{"token": "b", "logprob": -1.0}, {"token": "a", "logprob": -2.0}]
    turn = {"content": [{"token": "a", "logprob": -2.0, "bytes": [97], "top_logprobs": top}]}
    message = {"message": {"content": "a"}}
    for said, parts in (({"text": "a", "logprobs": text}, [Text("a")]), ({**message, "logprobs": turn}, QUESTION)):
        endpoint.replies = [as_json({"choices": [{"index": 0, "finish_reason": "length", **said}]})]
        output = generate(backend, *parts, params=SamplingParams(max_tokens=1, logprobs=2)).outputs[0]
        assert output.logprobs is not None
        assert [(entry.logprob, entry.top_logprobs) for entry in output.logprobs] == [(-2.0, [-1.0, -2.0])]


def piece(text: str, index: int = 0, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "text": text, "finish_reason": finish}]}


def test_a_stream_tells_the_pieces_of_the_first_output(backend: OpenAI, endpoint: Endpoint) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    texts = ["line\u2028separator", "\x85 ", "é"]  # what str.splitlines would cut at stands within a line of the stream
    chunks = [*map(piece, texts), piece("two", 1, "length"), piece("", 0, "stop"), {"choices": [], "usage": usage}]
    endpoint.replies = [events(*chunks)]
    heard: list[str] = []
    generated = generate(backend, Text("a"), params=SamplingParams(n=2, max_tokens=4), on_text=heard.append)
    assert heard == texts
    assert [(output.text, output.finish_reason) for output in generated.outputs] == [
        ("".join(texts), "stop"),
        ("two", "length"),
    ]
    assert generated.cost == Cost(3, None, 4)
    assert endpoint.bodies[0]["stream_options"] == {"include_usage": True}


def test_a_chat_is_streamed_too(backend: OpenAI, endpoint: Endpoint) -> None:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "Pa"}, {"content": "ris"}, {}]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    endpoint.replies = [events(*chunks)]
    heard: list[str] = []
    generated = generate(backend, *QUESTION, on_text=heard.append)
    assert heard == ["Pa", "ris"]
    assert generated.outputs == [Output("Paris", [], "stop")]
