"""Server-sent events of both kinds of completion."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
TEXT = ("/v1/completions", {"prompt": "hi", "max_tokens": 30})
BOTH = pytest.mark.parametrize("endpoint", [CHAT, TEXT], ids=["chat", "text"])


async def stream(client: Any, endpoint: Any, **body: Any) -> list[Any]:
    """The decoded events; the last one is the text ``[DONE]``, if it came."""
    path, base = endpoint
    answer = await client.post(path, json={"model": "m", "stream": True, **base, **body})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, rest = answer.text.split("\n\n")
    assert rest == ""
    assert all(event.startswith("data: ") for event in events)
    data = [event.removeprefix("data: ") for event in events]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def texts(chunks: list[Any]) -> dict[int, str]:
    joined: defaultdict[int, str] = defaultdict(str)
    for chunk in chunks[:-1]:
        for choice in chunk["choices"]:
            joined[choice["index"]] += choice["delta"].get("content", "") if "delta" in choice else choice["text"]
    return joined


async def test_a_chat_opens_with_the_role_and_ends_with_the_reason(client: Any, script: Any) -> None:
    script.says = [b"Hi"]
    chunks = await stream(client, CHAT)
    assert chunks.pop() == "[DONE]"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all("usage" not in chunk for chunk in chunks)
    common = {"index": 0, "logprobs": None, "finish_reason": None}
    assert [chunk["choices"] for chunk in chunks] == [
        [{**common, "delta": {"role": "assistant", "content": ""}}],
        [{**common, "delta": {"content": "H"}}],
        [{**common, "delta": {"content": "i"}}],
        [{**common, "delta": {}, "finish_reason": "stop", "matched_stop": 257}],
    ]


async def test_a_text_completion_s_last_text_has_the_reason(client: Any) -> None:
    chunks = await stream(client, TEXT, max_tokens=2)
    assert chunks.pop() == "[DONE]"
    common = {"index": 0, "logprobs": None, "matched_stop": None}
    assert [chunk["choices"] for chunk in chunks] == [
        [{**common, "text": "H", "finish_reason": None}],
        [{**common, "text": "e", "finish_reason": "length"}],
    ]


@BOTH
async def test_usage_comes_last_and_alone_when_asked_for(client: Any, endpoint: Any) -> None:
    *chunks, last, done = await stream(client, endpoint, stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 12
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in chunks)


@BOTH
@pytest.mark.parametrize("options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
async def test_no_usage_unless_asked_for(client: Any, endpoint: Any, options: Any) -> None:
    chunks = await stream(client, endpoint, **options)
    assert all("usage" not in chunk for chunk in chunks[:-1])


@BOTH
async def test_usage_so_far_can_be_in_every_chunk(client: Any, endpoint: Any) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = await stream(client, endpoint, stream_options=options, max_tokens=3)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]]
    assert counts == sorted(counts)
    assert set(counts) == {1, 2, 3}


@BOTH
async def test_outputs_share_the_stream_by_index(client: Any, script: Any, endpoint: Any) -> None:
    script.says = [b"one", b"three", b"two"]
    assert texts(await stream(client, endpoint, n=3)) == {0: "one", 1: "three", 2: "two"}


async def test_prompts_share_the_stream_by_index(client: Any, script: Any) -> None:
    script.says = [b"a", b"b"]
    chunks = await stream(client, TEXT, prompt=["x", "y"], echo=True)
    assert texts(chunks) == {0: "xa", 1: "yb"}


@BOTH
@pytest.mark.parametrize("limit", range(1, 26))
async def test_characters_arrive_whole_wherever_the_output_is_cut(
    client: Any, script: Any, endpoint: Any, limit: int
) -> None:
    script.says = ["a🙂👨‍👩‍👧é".encode()]
    streamed = texts(await stream(client, endpoint, max_tokens=limit))[0]
    path, base = endpoint
    choice = (await client.post(path, json={"model": "m", **base, "max_tokens": limit})).json()["choices"][0]
    assert streamed == (choice["message"]["content"] if "message" in choice else choice["text"])
    assert "\ufffd" not in streamed.rstrip("\ufffd")


@BOTH
async def test_a_stop_string_never_shows_in_parts(client: Any, script: Any, endpoint: Any) -> None:
    script.says = [b"ABCDEFGHIJKL"]
    assert texts(await stream(client, endpoint, stop="DEFGHIJ"))[0] == "ABC"


async def test_text_that_was_held_back_for_a_stop_string_comes_in_the_end(client: Any, script: Any) -> None:
    script.says = [b"ABCDEFG"]
    assert texts(await stream(client, CHAT, stop="DEFGHIJ"))[0] == "ABCDEFG"


async def test_streamed_logprobs_are_the_whole_answer_s(client: Any, script: Any) -> None:
    script.says = ["é日x".encode()]
    body = {"max_tokens": 6, "logprobs": 2, "echo": True, "n": 2}
    whole = (await client.post("/v1/completions", json={"model": "m", **TEXT[1], **body})).json()["choices"]
    script.requests.clear()
    pieces: dict[int, dict[str, list[Any]]] = {0: defaultdict(list), 1: defaultdict(list)}
    for chunk in (await stream(client, TEXT, **body))[:-1]:
        for name, values in chunk["choices"][0]["logprobs"].items():
            pieces[chunk["choices"][0]["index"]][name] += values
    assert [pieces[0], pieces[1]] == [choice["logprobs"] for choice in whole]


async def test_streamed_chat_logprobs_are_the_whole_answer_s(client: Any, script: Any) -> None:
    body = {"logprobs": True, "top_logprobs": 1}
    whole = (await client.post(CHAT[0], json={"model": "m", **CHAT[1], **body})).json()
    script.requests.clear()
    chunks = await stream(client, CHAT, **body)
    streamed = [one for chunk in chunks[:-1] for one in (chunk["choices"][0]["logprobs"] or {}).get("content", [])]
    assert streamed == whole["choices"][0]["logprobs"]["content"]


@BOTH
async def test_a_fault_in_mid_stream_is_an_event_and_the_end(client: Any, script: Any, endpoint: Any) -> None:
    script.fails_at = 2
    chunks = await stream(client, endpoint)
    assert chunks[-1] == {
        "error": {
            "message": "the logits were not finite",
            "type": "server_error",
            "param": None,
            "code": "request_failed",
        }
    }
    assert texts(chunks)[0] == "He"


@BOTH
async def test_a_fault_without_a_stream_is_a_500(client: Any, script: Any, endpoint: Any) -> None:
    script.fails_at = 2
    path, base = endpoint
    answer = await client.post(path, json={"model": "m", **base})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "request_failed")
