"""Structured output from HTTP to the grammar and back, on a whole engine whose simulated model repeats its prompt wherever
the grammar lets it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import pytest_asyncio

from sgframe.assembly.assemble import assemble
from sgframe.front.async_engine import AsyncEngine
from sgframe_openai.app import create_app

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one engine for all

RECORDED = Path(__file__).parent.parent / "data" / "client_requests"
VALUES = {
    **dict.fromkeys(("model", "backend", "source"), "simulated"),
    "transport": "inproc",
    "grammar": "compressed-fsm",
    "served_model_name": "m",
    "context_length": 4096,
}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
NOW = {"type": "function", "function": {"name": "now"}}
VALUE = {"a": "x", "b": ["y", None]}
ENDING = '"5'
"""A quotation mark to repeat, which ends a string, and a digit."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    configuration, choices = assemble(VALUES, None, {})
    engine = await AsyncEngine.start(configuration.settings, choices)
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client
    await engine.close()


async def chat(http: httpx.AsyncClient, content: str = f"{ENDING} is here", **body: Any) -> Any:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": 1000, **body}
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def structured_requests() -> list[Any]:
    lines = [line for file in sorted(RECORDED.glob("*.jsonl")) for line in file.read_text().splitlines()]
    bodies = [json.loads(line)["body"] for line in lines]
    return [body for body in bodies if isinstance(body, dict) and {"tools", "response_format"} & body.keys()]


@pytest.mark.parametrize("body", structured_requests(), ids=lambda body: str(body)[-40:])
async def test_what_recorded_clients_ask_for_comes(http: httpx.AsyncClient, body: Any) -> None:
    *before, last = body["messages"]
    body = {**body, "messages": [*before, {**last, "content": last["content"] + ENDING}], "stream": False}
    (choice,) = (await http.post("/v1/chat/completions", json=body)).json()["choices"]
    message = choice["message"]
    if "tools" in body:
        (call,) = message["tool_calls"]
        tool = body["tools"][0]["function"]
        assert (call["function"]["name"], choice["finish_reason"]) == (tool["name"], "tool_calls")
        jsonschema.validate(json.loads(call["function"]["arguments"]), tool["parameters"])
    else:
        schema = body["response_format"].get("json_schema", {}).get("schema", {"type": "object"})
        jsonschema.validate(json.loads(message["content"]), schema)
        assert choice["finish_reason"] == "stop"


async def test_a_regex_and_choices(http: httpx.AsyncClient) -> None:
    dated = await chat(http, regex=r"\d{4}-\d\d")
    assert re.fullmatch(r"\d{4}-\d\d", dated["choices"][0]["message"]["content"])
    chosen = await chat(http, structured_outputs={"choice": ["日本", "日曜"]})
    assert chosen["choices"][0]["message"]["content"] in ("日本", "日曜")


async def test_a_text_completion_is_constrained_too(http: httpx.AsyncClient) -> None:
    body = {"model": "m", "prompt": [[97], [98]], "guided_regex": "x[ab]+y", "max_tokens": 5}
    choices = (await http.post("/v1/completions", json=body)).json()["choices"]
    assert [choice["text"] for choice in choices] == ["xaaaa", "xbbbb"]
    assert [choice["finish_reason"] for choice in choices] == ["length", "length"]


@pytest.mark.parametrize(("whitespace", "gap"), [("fixed", " "), ("compact", "")])
async def test_whitespace_is_as_asked(http: httpx.AsyncClient, whitespace: str, gap: str) -> None:
    answer = await chat(http, json_schema={"const": VALUE}, whitespace=whitespace)
    expected = json.dumps(VALUE, separators=("," + gap, ":" + gap))
    assert answer["choices"][0]["message"]["content"] == expected


async def test_what_is_forced_is_counted_and_marked(http: httpx.AsyncClient) -> None:
    answer = await chat(http, regex="abcdef[xy]", logprobs=True, top_logprobs=1)
    entries = answer["choices"][0]["logprobs"]["content"]
    forced = [entry["token"] for entry in entries if entry.get("forced")]
    assert "".join(forced) in ("abcdef", "bcdef"), "the first token may be sampled with the prompt"
    assert answer["usage"]["sgframe"]["forced_tokens"] == len(forced)
    assert all(entry["logprob"] == 0.0 and not entry["top_logprobs"] for entry in entries if entry.get("forced"))


async def test_a_schema_that_cannot_be_honoured_is_refused_with_its_place(http: httpx.AsyncClient) -> None:
    body = {"model": "m", "prompt": "x", "guided_json": {"properties": {"a": {"type": "string", "pattern": "(b)\\1"}}}}
    answer = await http.post("/v1/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "guided_json")
    assert "/properties/a" in error["message"]
    assert "pattern" in error["message"]


async def test_a_required_tool_is_called(http: httpx.AsyncClient) -> None:
    (choice,) = (await chat(http, tools=[NOW], tool_choice="required", parallel_tool_calls=False))["choices"]
    assert choice["message"]["content"] is None
    assert [call["function"] for call in choice["message"]["tool_calls"]] == [{"name": "now", "arguments": "{}"}]
    assert choice["finish_reason"] == "tool_calls"


async def test_a_model_that_may_call_calls_rightly(http: httpx.AsyncClient) -> None:
    """It repeats its prompt, up to the example of a call: there the grammar puts the right name and arguments."""
    (choice,) = (await chat(http, tools=[WEATHER], parallel_tool_calls=False, ignore_eos=True))["choices"]
    assert choice["message"]["content"].endswith("between tags, and nothing after the last call:")
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather"
    jsonschema.validate(json.loads(call["function"]["arguments"]), CITY)
    assert choice["finish_reason"] == "tool_calls"
