"""Requests recorded from real clients, replayed in order; and the real ``openai`` package against a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

RECORDED = Path(__file__).parent.parent / "data" / "client_requests"
HARRY = '{"name": "Harry", "age": 11}'
"""All that clients were recorded asking for has this form."""
CALL = f'<tool_call>\n{{"name": "P", "arguments": {HARRY}}}\n</tool_call>'


async def replay(client: Any, name: str) -> list[tuple[dict[str, Any], Any]]:
    """(request, answer) for each recorded line."""
    pairs = []
    for line in (RECORDED / f"{name}.jsonl").read_text().splitlines():
        request = json.loads(line)
        content = None if request["body"] is None else json.dumps(request["body"])
        if isinstance(request["body"], str):  # the client sent this text itself
            content = request["body"]
        answer = await client.request(request["method"], request["path"], headers=request["headers"], content=content)
        pairs.append((request, answer))
    return pairs


def check(request: dict[str, Any], answer: Any) -> None:
    """The answer has what OpenAI's API promises for such a request."""
    body = request["body"]
    if request["path"] == "/v1/models":
        assert answer.json()["data"][0]["id"] == "m"
    elif request["path"] == "/v1/responses":
        assert answer.status_code == 404
        assert "use /v1/chat/completions" in answer.json()["error"]["message"]
    elif "tools" in body:
        check_call(answer)
    elif body.get("stream"):
        text = check_stream(body, answer)
        assert "response_format" not in body or text == HARRY
    else:
        choice = check_whole(request["path"], body, answer)
        assert "response_format" not in body or choice["message"]["content"] == HARRY


def check_call(answer: Any) -> None:
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "P", "arguments": HARRY}
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


def check_whole(path: str, body: dict[str, Any], answer: Any) -> Any:
    """The first choice."""
    assert answer.status_code == 200, answer.text
    choices = answer.json()["choices"]
    prompts = (
        len(body["prompt"]) if isinstance(body.get("prompt", ""), list) and type(body["prompt"][0]) is not int else 1
    )
    assert [choice["index"] for choice in choices] == list(range(prompts * body.get("n", 1)))
    for choice in choices:
        assert choice["finish_reason"] in ("stop", "length")
        assert isinstance(choice["message"]["content"] if "chat" in path else choice["text"], str)
    usage = answer.json()["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return choices[0]


def check_stream(body: dict[str, Any], answer: Any) -> str:
    """The text."""
    assert answer.status_code == 200, answer.text
    *events, done = answer.text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    if (body.get("stream_options") or {}).get("include_usage"):
        assert chunks.pop()["usage"]["completion_tokens"] > 0
    *reasons, last = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert set(reasons) <= {None}
    assert last in ("stop", "length")
    choices = [chunk["choices"][0] for chunk in chunks]
    return "".join(one["delta"].get("content") or "" if "delta" in one else one["text"] for one in choices)


@pytest.fixture(autouse=True)
def _structured(engine: Any, script: Any) -> None:
    engine.compiler.kinds = {"json_object", "json_schema", "tools"}
    script.obeys = {"json_object": HARRY.encode(), "json_schema": HARRY.encode(), "tools": CALL.encode()}


@pytest.mark.parametrize(
    "name",
    [
        "guidellm",
        "instructor",
        "langchain-openai",
        "litellm",
        "lm-eval_gs_local",
        "openai-npm",
        "openai-python",
        "vercel-ai-sdk",
    ],
)
async def test_a_recorded_client_gets_what_it_needs(client: Any, name: str) -> None:
    pairs = await replay(client, name)
    assert pairs
    for request, answer in pairs:
        check(request, answer)


async def test_guidellm_gets_as_many_tokens_as_it_asks_for(client: Any, script: Any) -> None:
    script.says = [b"Hi"]  # ends early unless ignore_eos is honoured
    for request, answer in await replay(client, "guidellm"):
        if request["method"] == "POST":
            assert f'"completion_tokens":{request["body"]["max_tokens"]}' in answer.text


async def test_lm_eval_can_score_continuations(client: Any) -> None:
    """It slices ``[context:-1]`` of both lists and asks whether each token is the best of its alternatives."""
    pairs = await replay(client, "lm-eval_hs_local_tokenized_True")
    for request, answer in pairs:
        (prompt,) = request["body"]["prompt"]
        logprobs = answer.json()["choices"][0]["logprobs"]
        assert {len(values) for values in logprobs.values()} == {len(prompt) + 1}
        assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
        for logprob, top in zip(logprobs["token_logprobs"][1:], logprobs["top_logprobs"][1:], strict=True):
            assert logprob == max(top.values())


async def test_schemathesis_gets_errors_in_the_envelope(client: Any) -> None:
    pairs = await replay(client, "schemathesis")
    assert [answer.status_code for _, answer in pairs] == [404, 404, 404, 400, 404]
    assert all(set(answer.json()["error"]) == {"message", "type", "param", "code"} for _, answer in pairs)


@pytest.fixture
def sdk(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY", max_retries=0)


async def test_openai_lists_and_finds_models(sdk: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in sdk.models.list()] == ["m"]
    assert (await sdk.models.retrieve("some/folder")).id == "m"


async def test_openai_chats(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hi"}], logprobs=True, top_logprobs=1, max_tokens=5
    )
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].logprobs and answer.choices[0].logprobs.content
    assert answer.choices[0].logprobs.content[0].top_logprobs[0].token == "H"
    assert answer.usage and answer.usage.prompt_tokens_details
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_openai_streams_a_chat(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hi"}], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "Hello world"
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 12


async def test_openai_s_stream_helper(sdk: openai.AsyncOpenAI) -> None:
    async with sdk.chat.completions.stream(model="m", messages=[{"role": "user", "content": "hi"}]) as stream:
        async for _ in stream:
            pass
        answer = await stream.get_final_completion()
    assert answer.choices[0].message.content == "Hello world"


class P(pydantic.BaseModel):
    name: str
    age: int


async def test_openai_parses_what_a_schema_gave(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.parse(
        model="m", messages=[{"role": "user", "content": "Harry is 11"}], response_format=P
    )
    assert answer.choices[0].message.parsed == P(name="Harry", age=11)


async def test_openai_parses_the_arguments_of_a_call(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.parse(
        model="m", messages=[{"role": "user", "content": "Harry is 11"}], tools=[openai.pydantic_function_tool(P)]
    )
    assert answer.choices[0].message.tool_calls
    assert answer.choices[0].message.tool_calls[0].function.parsed_arguments == P(name="Harry", age=11)


async def test_openai_completes_text(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.completions.create(model="m", prompt=["a", "b"], echo=True, logprobs=1, max_tokens=2)
    assert [choice.text for choice in answer.choices] == ["aHe", "bHe"]


async def test_openai_raises_its_own_errors(sdk: openai.AsyncOpenAI, engine: Any) -> None:
    with pytest.raises(openai.NotFoundError, match="another"):
        await sdk.completions.create(model="another", prompt="x")
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.completions.create(model="m", prompt="x", max_tokens=5000)
    assert caught.value.code == "context_length_exceeded"
    engine.die("worker-0 was killed")
    with pytest.raises(openai.InternalServerError, match="worker-0 was killed"):
        await sdk.completions.create(model="m", prompt="x")


async def test_openai_raises_in_mid_stream(sdk: openai.AsyncOpenAI, script: Any) -> None:
    script.fails_at = 3
    stream = await sdk.completions.create(model="m", prompt="x", stream=True)
    with pytest.raises(openai.APIError, match="not finite"):
        async for _ in stream:
            pass


async def test_openai_s_blocking_client(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="EMPTY", max_retries=0)
    answer = await asyncio.to_thread(client.completions.create, model="m", prompt="x", max_tokens=5)
    assert answer.choices[0].text == "Hello"
