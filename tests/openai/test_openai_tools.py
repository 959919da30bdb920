"""Tools of a chat: what may be called, and calls as clients get them, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import openai
import pytest

from sgframe.constraints import Tool, ToolConstraint

USER = {"role": "user", "content": "hi"}
CITY: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "d", "parameters": CITY, "strict": True}}
NOW = {"type": "function", "function": {"name": "now"}}
NOTHING: dict[str, object] = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [Tool("weather", CITY), Tool("now", NOTHING)]
ROME = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
THEN = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


@pytest.fixture(autouse=True)
def _tools(engine: Any) -> None:
    engine.compiler.kinds = {"tools"}


async def ask(client: Any, **body: Any) -> Any:
    body = {"model": "m", "messages": [USER], "tools": [WEATHER, NOW], **body}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json() if not body.get("stream") else answer.text


def asked(engine: Any) -> ToolConstraint:
    (constraint,) = engine.compiler.asked
    assert constraint.kind == "tools"
    return msgspec.json.decode(constraint.text, type=ToolConstraint)


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(map(named, names))}}


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({}, ToolConstraint(TOOLS, required=False, parallel=True)),
        ({"tool_choice": "auto"}, ToolConstraint(TOOLS, required=False, parallel=True)),
        ({"parallel_tool_calls": False}, ToolConstraint(TOOLS, required=False, parallel=False)),
        ({"tool_choice": "required"}, ToolConstraint(TOOLS, required=True, parallel=True)),
        ({"tool_choice": named("now")}, ToolConstraint(TOOLS[1:], required=True, parallel=False)),
        ({"tool_choice": allowed("auto", "now")}, ToolConstraint(TOOLS[1:], required=False, parallel=True)),
        ({"tool_choice": allowed("required", "now", "weather")}, ToolConstraint(TOOLS, required=True, parallel=True)),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_the_choice_says_what_may_be_called(
    client: Any, engine: Any, fields: Any, constraint: ToolConstraint
) -> None:
    await ask(client, **fields)
    assert asked(engine) == constraint


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": []}, {"tools": None}])
async def test_without_tools_to_call_the_output_is_free(client: Any, engine: Any, script: Any, fields: Any) -> None:
    script.says = [ROME.encode()]
    message = (await ask(client, **fields))["choices"][0]["message"]
    assert message == {"role": "assistant", "content": ROME, "refusal": None}
    assert engine.compiler.asked == []


async def test_the_model_is_told_of_all_tools_but_not_of_strict(client: Any, engine: Any, script: Any) -> None:
    await ask(client, tool_choice=named("now"))
    prompt = b"".join(map(engine.tokenizer.token_bytes, script.requests[0].tokens)).decode()
    assert '"name": "weather", "description": "d"' in prompt
    assert '"name": "now"' in prompt
    assert "strict" not in prompt


async def test_tokenize_counts_the_tools(client: Any, script: Any) -> None:
    await ask(client)
    answer = await client.post("/tokenize", json={"messages": [USER], "tools": [WEATHER, NOW]})
    assert answer.json()["tokens"] == list(script.requests[0].tokens)
    answer = await client.post("/tokenize", json={"prompt": "hi", "tools": [WEATHER]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "tools")


async def test_a_call_has_openai_s_shape(client: Any, script: Any) -> None:
    script.says = [ROME.encode()]
    choice = (await ask(client))["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert call.pop("id").startswith("call_")
    assert call == {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


async def test_calls_have_ids_of_their_own_and_text_is_kept(client: Any, script: Any) -> None:
    script.says = [f"Let me see.\n{ROME}\n{THEN}".encode()]
    message = (await ask(client))["choices"][0]["message"]
    assert message["content"] == "Let me see."
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather", "now"]
    assert len({call["id"] for call in message["tool_calls"]}) == 2


async def test_an_answer_without_a_call_is_text(client: Any) -> None:
    choice = (await ask(client))["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "Hello world", "refusal": None}
    assert choice["finish_reason"] == "stop"


async def test_a_call_that_max_tokens_cuts_comes_as_far_as_it_is(client: Any, script: Any) -> None:
    script.says = [ROME.encode()]
    choice = (await ask(client, max_tokens=ROME.index("Rome") + 2))["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Ro'}
    assert choice["finish_reason"] == "length"


async def test_a_call_that_a_stop_string_cuts_is_no_finished_call(client: Any, script: Any) -> None:
    script.says = [ROME.encode()]
    choice = (await ask(client, stop="ome"))["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "R'
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", "ome")


async def test_each_choice_has_its_own_calls(client: Any, script: Any) -> None:
    script.says = [ROME.encode(), b"No.", f"{THEN}\n{ROME}".encode()]
    choices = (await ask(client, n=3))["choices"]
    names = [[c["function"]["name"] for c in choice["message"].get("tool_calls", [])] for choice in choices]
    assert names == [["weather"], [], ["now", "weather"]]
    assert [choice["finish_reason"] for choice in choices] == ["tool_calls", "stop", "tool_calls"]


# ------------------------------------------------------------------------------------------ streamed


def chunks(text: str) -> list[Any]:
    *events, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_a_streamed_call_begins_with_its_name_and_goes_on_with_arguments(client: Any, script: Any) -> None:
    script.says = [f"Well. {ROME}\n{THEN}".encode()]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(await ask(client, stream=True))]
    assert deltas[0] == {"role": "assistant", "content": None}
    said = [delta["content"] for delta in deltas[1:] if "content" in delta]
    assert "".join(said) == "Well."
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    ids = [call.pop("id") for call in calls if "id" in call]
    assert len(set(ids)) == 2
    assert calls == [
        {"index": 0, "type": "function", "function": {"name": "weather", "arguments": ""}},
        *[{"index": 0, "function": {"arguments": character}} for character in '{"city": "Rome"}'],
        {"index": 1, "type": "function", "function": {"name": "now", "arguments": ""}},
        *[{"index": 1, "function": {"arguments": character}} for character in "{}"],
    ]
    assert deltas[-1] == {}


@pytest.mark.parametrize("cut", [{}, {"max_tokens": 45}, {"max_tokens": 7}, {"stop": "Rome"}])
async def test_what_is_streamed_is_the_whole_answer(client: Any, script: Any, cut: Any) -> None:
    script.says = [f"Well.\n{ROME}".encode(), b"No <tool box"]
    body = {"n": 2, "logprobs": True, "top_logprobs": 1, **cut}
    whole = (await ask(client, **body))["choices"]
    script.requests.clear()
    for expected in whole:
        streamed = [
            choice
            for chunk in chunks(await ask(client, stream=True, **body))
            for choice in chunk["choices"]
            if choice["index"] == expected["index"]
        ]
        script.requests.clear()
        assert "".join(one["delta"].get("content") or "" for one in streamed) == (expected["message"]["content"] or "")
        arguments = [call["function"]["arguments"] for one in streamed for call in one["delta"].get("tool_calls", [])]
        calls = expected["message"].get("tool_calls", [])
        assert "".join(arguments) == "".join(call["function"]["arguments"] for call in calls)
        assert [e for one in streamed if one["logprobs"] for e in one["logprobs"]["content"]] == (
            expected["logprobs"]["content"]
        )
        assert [one["finish_reason"] for one in streamed if one["finish_reason"]] == [expected["finish_reason"]]


async def test_usage_comes_last_with_tools_too(client: Any, script: Any) -> None:
    script.says = [ROME.encode()]
    last = chunks(await ask(client, stream=True, stream_options={"include_usage": True}))[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == len(ROME) + 1
    assert last["usage"]["sgframe"] == {"forced_tokens": 0}


async def test_the_openai_package_puts_a_streamed_call_together(url: str, script: Any) -> None:
    script.says = [f"{ROME}\n{THEN}".encode()]
    sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY", max_retries=0)
    async with sdk.chat.completions.stream(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        tools=[WEATHER, NOW],  # type: ignore[list-item]
    ) as stream:
        async for _ in stream:
            pass
        choice = (await stream.get_final_completion()).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.tool_calls
    assert [call.function.arguments for call in choice.message.tool_calls] == ['{"city": "Rome"}', "{}"]


async def test_the_second_turn_works_with_what_the_first_gave(client: Any, engine: Any, script: Any) -> None:
    script.says = [ROME.encode(), b"Sunny."]
    message = (await ask(client))["choices"][0]["message"]
    answer = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Sunny"}
    second = (await ask(client, messages=[USER, message, answer]))["choices"][0]
    assert second["message"]["content"] == "Sunny."
    prompt = b"".join(map(engine.tokenizer.token_bytes, script.requests[1].tokens)).decode()
    first = b"".join(map(engine.tokenizer.token_bytes, script.requests[0].tokens)).decode()
    assert prompt.startswith(first + ROME), "so that the first turn's KV is reused"
