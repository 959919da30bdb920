"""Good bodies with something wrong in them, at random: each is answered or refused, and the server goes on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "Sunny"},
]
SAMPLING = {
    "n": 2,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "repetition_penalty": 1.1,
    "seed": 3,
    "stop": ["zz"],
    "stop_token_ids": [7],
    "logit_bias": {"5": 1},
    "ignore_eos": False,
    "priority": 0,
    "cache_salt": "s",
    "response_format": {"type": "text"},
    "user": "u",
    "metadata": {"a": "b"},
}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
TOOLS = {"tools": [], "tool_choice": "auto", "chat_template_kwargs": {"x": 1}}
GOOD: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": TURNS, "max_tokens": 4, "logprobs": True, "top_logprobs": 2, **SAMPLING, **STREAM, **TOOLS}),
    (CHAT, {"messages": TURNS[:2], "max_completion_tokens": 3}),
    (TEXT, {"prompt": "abc", "max_tokens": 4, "echo": True, "logprobs": 2, "best_of": 2, "suffix": ""}),
    (TEXT, {"prompt": ["abc", "def"], "max_tokens": 2, "echo": True, "logprobs": 0, **SAMPLING, **STREAM}),
    (TEXT, {"prompt": [[1, 2, 3], [4]], "max_tokens": 0, "echo": True, "logprobs": 1}),
    (TEXT, {"prompt": [1, 2, 3], "max_tokens": 3}),
    ("/tokenize", {"prompt": "abc", "add_special_tokens": True}),
    ("/tokenize", {"messages": TURNS}),
    ("/detokenize", {"tokens": [1, 2, 255]}),
]


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


HOSTILE = [
    *[None, True, False, 0, 1, -1, 1.5, -0.0, 1e308, 5e-324, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**30],
    *["", " ", "a", "\x00", "\ud83d\ude00", "é日🙂", "null", "1", "x" * 3000, "<|im_end|>", "{{ x }}", "{% if %}"],
    *[[], {}, [[]], [None], [""], ["a"], [0], [1, "a"], [True], [256], [260], [-1], ["a"] * 70],
    *[{"a": 1}, {"": ""}, {"type": "text"}, {"-1": 1}, {"1": 101}],
    *[nested(depth, wrap) for depth in (20, 200) for wrap in (lambda value: [value], lambda value: {"a": value})],
]
NAMES = ["n", "stop", "prompt", "messages", "role", "content", "tool_calls", "type", "text", "functions", "echo", "foo"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything inside ``value`` down to the seventh level."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items if len(path) < 7 else ():
        yield (*path, key)
        yield from places(item, (*path, key))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path, and a good body in which one to three places were changed, removed, wrapped or added."""
    path, body = draw(st.sampled_from(GOOD))
    body = copy.deepcopy({"model": "simulated", **body})
    for _ in range(draw(st.integers(1, 3))):
        *parents, key = draw(st.sampled_from(sorted(places(body), key=str)))
        holder: Any = body
        for parent in parents:
            holder = holder[parent]
        match draw(st.sampled_from(["replace", "replace", "replace", "remove", "wrap", "add"])):
            case "replace":
                holder[key] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
            case "remove":
                del holder[key]
            case "wrap":
                holder[key] = [holder[key]]
            case "add":
                holder = body if isinstance(holder, list) else holder
                holder[draw(st.sampled_from(NAMES))] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
        if not body:
            break
    data = bytearray(json.dumps(body).encode())
    for _ in range(draw(st.sampled_from([0] * 9 + [3]))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return path, bytes(data)


@pytest.mark.timeout(300)
def test_no_body_is_the_server_s_fault(client: httpx.Client, checks: Any) -> None:
    @settings(
        max_examples=1000, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(requests())
    def answered_or_refused(request: tuple[str, bytes]) -> None:
        path, body = request
        answer = client.post(path, content=body, timeout=20)
        assert answer.status_code in (200, 400, 404), answer.text
        if answer.status_code == 200:
            assert '"error"' not in answer.text
        else:
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    answered_or_refused()
    checks.goes_on(client)
    checks.comes_to_rest(client)
