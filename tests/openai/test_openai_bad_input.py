"""Whatever is wrong with a request: an error in the envelope that names the field, and the next request is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
USER = {"role": "user", "content": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
TOOL = {"type": "function", "function": {"name": "f"}}
HUGE = 2**63


async def refused(client: Any, path: str, body: Any, status: int = 400) -> Any:
    """The error's fields, after a check of the envelope and that the server goes on."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post(path, content=content)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert answer.json() == {"error": error}
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    good = await client.post(TEXT, json={"model": "m", "prompt": "x", "max_tokens": 1})
    assert good.status_code == 200
    return error


@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    "body",
    [
        *[b"", b"{x", b"{not json", b"\xff\xfe", b"\x00", b"[]", b'"text"', b"null", b"3", b"[" * 100_000],
        *[b'{"a":' * 100_000, b'{"temperature": NaN}', b'{"temperature": 1e400}', b'{"prompt": "\xff"}'],
        *[b'{"prompt": "\\ud800"}', b'{"model": "m"} tail'],
    ],
    ids=lambda body: repr(body[:12]),
)
async def test_a_body_that_is_no_json_object(client: Any, path: str, body: bytes) -> None:
    assert (await refused(client, path, body))["type"] == "invalid_request_error"


@pytest.mark.parametrize("depth", range(900, 1000, 5))
@pytest.mark.parametrize("field", ["json_schema", "tools", "arguments"])
async def test_whatever_is_nested_too_deeply_is_the_client_s_fault(
    client: Any, engine: Any, field: str, depth: int
) -> None:
    """A body that can be read may still be too deep to be written, a little farther down the stack."""
    engine.compiler.kinds = {"json_schema", "tools"}
    deep = '{"a":' * depth + "{}" + "}" * depth
    function = {"name": "f", "arguments" if field == "arguments" else "parameters": "DEEP"}
    body = {"model": "m", "messages": [USER]}
    match field:
        case "json_schema":
            body["json_schema"] = "DEEP"
        case "tools":
            body["tools"] = [{"type": "function", "function": function}]
        case "arguments":
            body["messages"] = [USER, {"role": "assistant", "tool_calls": [{"function": function}]}]
    answer = await client.post(CHAT, content=json.dumps(body).replace('"DEEP"', deep))
    assert answer.status_code in (200, 400)


async def test_of_equal_keys_the_last_counts(client: Any, script: Any) -> None:
    body = b'{"model": "m", "prompt": "x", "max_tokens": 9, "max_tokens": 2}'
    assert (await client.post(TEXT, content=body)).json()["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("model", [{}, {"model": None}, {"model": ""}, {"model": "another"}, {"model": "\ud83d\ude00"}])
async def test_a_model_that_is_not_served(client: Any, path: str, model: Any) -> None:
    error = await refused(
        client, path, {"messages": [USER], **model} if path == CHAT else {"prompt": "x", **model}, 404
    )
    assert (error["param"], error["code"]) == ("model", "model_not_found")


async def test_the_model_s_path_is_a_name_too(client: Any) -> None:
    answer = await client.post(TEXT, json={"model": "some/folder", "prompt": "x"})
    assert answer.json()["model"] == "m"


SHARED = [
    ({"n": 0}, "n"),
    ({"n": -1}, "n"),
    ({"n": 1.5}, "n"),
    ({"n": HUGE}, "n"),
    ({"n": "2"}, "n"),
    ({"n": True}, "n"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"seed": HUGE}, "seed"),
    ({"seed": 0.5}, "seed"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": "10"}, "max_tokens"),
    ({"max_tokens": HUGE}, "max_tokens"),
    ({"stop": [""]}, "stop"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a", 5]}, "stop[1]"),
    ({"stop": ["x"] * 65}, "stop"),
    ({"stop": {}}, "stop"),
    ({"stop_token_ids": [49152]}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids"),
    ({"logit_bias": {"191222": -100}}, "logit_bias"),
    ({"logit_bias": {"AI": -100}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"²": 1}}, "logit_bias"),
    ({"logit_bias": {str(i): 1 for i in range(2000)}}, "logit_bias"),
    ({"logit_bias": {"5": 101}}, "logit_bias"),
    ({"logit_bias": {"5": "x"}}, "logit_bias[...]"),
    ({"logit_bias": [1]}, "logit_bias"),
    ({"stream": "yes"}, "stream"),
    ({"stream": 1}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    ({"stream": True, "stream_options": []}, "stream_options"),
    ({"model": 5}, "model"),
    ({"ignore_eos": "no"}, "ignore_eos"),
    ({"priority": HUGE}, "priority"),
    ({"cache_salt": 1}, "cache_salt"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}}, "response_format"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "json_object", "strict": True}}, "response_format"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, "response_format.json_schema.schema"),
    ({"guided_regex": "a+"}, "guided_regex"),
    ({"guided_regex": 5}, "guided_regex"),
    ({"guided_json": "{"}, "guided_json"),
    ({"guided_json": "[]"}, "guided_json"),
    ({"guided_choice": "a"}, "guided_choice"),
    ({"choice": [5]}, "choice[0]"),
    ({"guided_grammar": "root ::= 'a'"}, "guided_grammar"),
    ({"ebnf": "root ::= 'a'"}, "ebnf"),
    ({"structural_tag": "{}"}, "structural_tag"),
    ({"guided_whitespace_pattern": " ?"}, "guided_whitespace_pattern"),
    ({"structured_outputs": {"regex": "a+"}}, "structured_outputs"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
    ({"structured_outputs": {"grammar": "root ::= 'a'"}}, "structured_outputs"),
    ({"structured_outputs": {"regex": "a", "whitespace_pattern": " ?"}}, "structured_outputs.whitespace_pattern"),
    ({"whitespace": "compact"}, "whitespace"),
    ({"regex": "a", "whitespace": "compact"}, "whitespace"),
    ({"json_schema": {}, "whitespace": "none"}, "whitespace"),
    ({"regex": "a", "approximate": True}, "approximate"),
    ({"grammar": "fake"}, "grammar"),
    ({"guided_decoding_backend": "auto"}, "guided_decoding_backend"),
    ({"regex": "a", "grammar": "fake", "guided_decoding_backend": "fake"}, "guided_decoding_backend"),
    ({"regex": "a", "grammar": "unheard"}, "grammar"),
    ({"regex": "a", "guided_decoding_backend": "unheard"}, "guided_decoding_backend"),
    ({"regex": "a", "choice": ["b"]}, "choice"),
    ({"response_format": {"type": "json_object"}, "regex": "a"}, "regex"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
    ({"logits_processors": ["x"]}, "logits_processors"),
    ({"min_tokens": 5}, "min_tokens"),
    ({"suffix": "end"}, "suffix"),
    ({"temprature": 1}, "temprature"),
]


@pytest.mark.parametrize(("fields", "param"), SHARED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_field_that_both_kinds_have(client: Any, path: str, fields: Any, param: str) -> None:
    base = {"messages": [USER]} if path == CHAT else {"prompt": "x"}
    assert (await refused(client, path, {"model": "m", **base, **fields}))["param"] == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": 5, "content": "hi"}]}, "messages[1].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": ["hi"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [USER, {"role": "system", "content": "late"}]}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_completion_tokens": 5000}, "max_completion_tokens"),
        ({"logprobs": 3}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 1_000_000}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"tools": [TOOL]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tools"),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "x" * 65}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": {"f": {}}}, "tools"),
        ({"tools": [{**TOOL, "function": {"name": f"f{i}"}} for i in range(513)]}, "tools"),
        ({"tools": [TOOL], "response_format": {"type": "json_object"}}, "tools"),
        ({"tools": [TOOL], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"function_call": "auto"}, "function_call"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"chat_template_kwargs": {"messages": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": []}}, "chat_template_kwargs[...]"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_chat_field(client: Any, fields: Any, param: str) -> None:
    assert (await refused(client, CHAT, {"model": "m", "messages": [USER], **fields}))["param"] == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        *[({"prompt": prompt}, "prompt") for prompt in (None, "", [], [""], [[]], ["a", ""], [[1], []], 5, {})],
        *[({"prompt": prompt}, "prompt") for prompt in ([1, "a"], ["a", [1]], [1, [1]], [49152], [[-1]], [HUGE])],
        ({"prompt": [1, True]}, "prompt[1]"),
        ({"prompt": [[1, 1.5]]}, "prompt[0][1]"),
        ({"prompt": ["x"] * 2049}, "prompt"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": 10, "echo": True, "max_tokens": 0}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": 1}, "echo"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 129}, "best_of"),
        ({"best_of": 2, "stream": True}, "best_of"),
        ({"tools": []}, "tools"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_text_field(client: Any, fields: Any, param: str) -> None:
    assert (await refused(client, TEXT, {"model": "m", "prompt": "x", **fields}))["param"] == param


async def test_a_misspelt_field_gets_the_nearest_name(client: Any) -> None:
    error = await refused(client, TEXT, {"model": "m", "prompt": "x", "temprature": 1})
    assert error["message"] == "unknown field 'temprature'; did you mean 'temperature'?"


async def test_structured_output_says_what_is_missing(client: Any) -> None:
    error = await refused(client, CHAT, {"model": "m", "messages": [USER], "response_format": {"type": "json_object"}})
    assert error["message"] == "the output cannot be constrained by json_object"
    assert error["param"] == "response_format"


async def test_the_template_s_own_words_are_told(client: Any) -> None:
    error = await refused(client, CHAT, {"model": "m", "messages": [USER, {"role": "system", "content": "late"}]})
    assert "System message must be at the beginning" in error["message"]


async def test_a_prompt_that_fills_the_context_works_and_one_more_token_does_not(client: Any) -> None:
    body = {"model": "m", "prompt": [65] * 3999, "max_tokens": 1}
    assert (await client.post(TEXT, json=body)).status_code == 200
    error = await refused(client, TEXT, {**body, "prompt": [65] * 4000})
    assert (error["code"], error["param"]) == ("context_length_exceeded", "max_tokens")
    assert "4001" in error["message"]
    assert "4000" in error["message"]


async def test_a_text_of_ten_megabytes_is_too_long(client: Any) -> None:
    error = await refused(client, TEXT, {"model": "m", "prompt": "x" * 10_000_000})
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")


async def test_a_conversation_longer_than_the_context(client: Any) -> None:
    error = await refused(client, CHAT, {"model": "m", "messages": [{"role": "user", "content": "x" * 4000}]})
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")


async def test_a_body_above_the_limit_is_refused_unread(client: Any) -> None:
    assert (await refused(client, TEXT, b'"' + b"x" * 2**25, 413))["code"] == "request_too_large"


async def test_a_message_that_quotes_the_client_stays_short(client: Any) -> None:
    assert len((await refused(client, TEXT, {"model": "x" * 100_000, "prompt": "x"}, 404))["message"]) < 1100


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/v1/models/", 404, "model_not_found"),
        ("GET", "/v1/models/another", 404, "model_not_found"),
        ("POST", "/v1/responses", 404, "not_found"),
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
    ],
)
async def test_a_wrong_path_or_method(client: Any, method: str, path: str, status: int, code: str) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_a_wrong_method_names_the_right_one(client: Any) -> None:
    assert (await client.get("/v1/completions")).headers["allow"] == "POST"
