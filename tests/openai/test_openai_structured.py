"""What an output must match, in each spelling that clients have for it; and what they are told of it."""

from __future__ import annotations

from typing import Any

import pytest

from sgframe.constraints import Constraint
from sgframe.errors import RequestError

CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
TEXT = ("/v1/completions", {"prompt": "hi"})
BOTH = pytest.mark.parametrize("endpoint", [CHAT, TEXT], ids=["chat", "text"])
SCHEMA = {"type": "object", "properties": {"b": {}, "a": {"const": 10**30}}}
SCHEMA_TEXT = '{"type":"object","properties":{"b":{},"a":{"const":1000000000000000000000000000000}}}'


@pytest.fixture(autouse=True)
def _every_kind(engine: Any) -> None:
    engine.compiler.kinds = {"regex", "json_schema", "json_object", "choice"}


async def post(client: Any, endpoint: Any, **fields: Any) -> Any:
    path, base = endpoint
    return await client.post(path, json={"model": "m", **base, **fields})


async def ask(client: Any, endpoint: Any, **fields: Any) -> Any:
    answer = await post(client, endpoint, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


OF_SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}


@BOTH
@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"response_format": {"type": "json_object"}}, Constraint("json_object", "")),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, Constraint("json_schema", SCHEMA_TEXT)),
        ({"response_format": OF_SCHEMA}, Constraint("json_schema", SCHEMA_TEXT)),
        ({"response_format": {"type": "text"}, "regex": "a+"}, Constraint("regex", "a+")),
        ({"json_schema": SCHEMA}, Constraint("json_schema", SCHEMA_TEXT)),
        ({"json_schema": '{"type": "null"}'}, Constraint("json_schema", '{"type":"null"}')),
        ({"json_schema": True}, Constraint("json_schema", "true")),
        ({"guided_json": SCHEMA}, Constraint("json_schema", SCHEMA_TEXT)),
        ({"guided_regex": "é\\d"}, Constraint("regex", "é\\d")),
        ({"choice": ["é", "b"]}, Constraint("choice", '["é","b"]')),
        ({"guided_choice": ["a"]}, Constraint("choice", '["a"]')),
        ({"structured_outputs": {"json": SCHEMA}}, Constraint("json_schema", SCHEMA_TEXT)),
        ({"structured_outputs": {"regex": ""}}, Constraint("regex", "")),
        ({"structured_outputs": {"choice": ["a"]}}, Constraint("choice", '["a"]')),
        ({"structured_outputs": {"json_object": True}}, Constraint("json_object", "")),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_each_spelling_is_a_constraint(
    client: Any, engine: Any, endpoint: Any, fields: Any, constraint: Constraint
) -> None:
    await ask(client, endpoint, **fields)
    assert engine.compiler.asked == [constraint]


@pytest.mark.parametrize("strict", [{}, {"strict": None}, {"strict": False}, {"strict": True}])
async def test_a_schema_is_enforced_strict_or_not(client: Any, engine: Any, strict: Any) -> None:
    json_schema = {"name": "n", "description": "d", "schema": SCHEMA, **strict}
    await ask(client, CHAT, response_format={"type": "json_schema", "json_schema": json_schema})
    assert engine.compiler.asked == [Constraint("json_schema", SCHEMA_TEXT)]


async def test_free_text_has_no_constraint(client: Any, engine: Any, script: Any) -> None:
    answer = await ask(client, CHAT, response_format={"type": "text"}, regex=None, structured_outputs=None)
    assert engine.compiler.asked == []
    assert script.requests[0].grammar is None
    assert "sgframe" not in answer["usage"]


async def test_whitespace_approximation_and_grammar_are_passed_on(client: Any, engine: Any) -> None:
    await ask(client, CHAT, json_schema=True, whitespace="compact", approximate=True, grammar="fake")
    await ask(client, CHAT, guided_json=True, guided_decoding_backend="fake", whitespace="free")
    await ask(client, CHAT, guided_json=True, guided_decoding_backend="auto")
    assert engine.compiler.asked == [
        Constraint("json_schema", "true", "compact", approximate=True, grammar="fake"),
        Constraint("json_schema", "true", "free", grammar="fake"),
        Constraint("json_schema", "true"),
    ]


async def test_vllm_s_switches_agree_with_what_is_done_anyway(client: Any, engine: Any) -> None:
    asked = {"json": True, "disable_any_whitespace": True, "disable_fallback": True}
    await ask(client, CHAT, structured_outputs=asked)
    answer = await post(client, CHAT, structured_outputs=asked, whitespace="free")
    assert answer.json()["error"]["message"] == (
        "whitespace 'free' contradicts structured_outputs.disable_any_whitespace"
    )


@BOTH
async def test_two_constraints_are_refused_and_both_are_named(client: Any, endpoint: Any) -> None:
    answer = await post(client, endpoint, guided_regex="a", response_format={"type": "json_object"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "response_format (json_object) and guided_regex (regex) both say what the output must match; send one of them"
    )


@BOTH
async def test_why_a_schema_is_refused_is_told_with_the_client_s_field(client: Any, engine: Any, endpoint: Any) -> None:
    reason = "#/properties/a: the keyword 'contentSchema' cannot be honoured"
    engine.compiler.refusal = RequestError(reason, code="unsupported_schema")
    error = (await post(client, endpoint, guided_json=SCHEMA)).json()["error"]
    assert error == {
        "message": reason,
        "type": "invalid_request_error",
        "param": "guided_json",
        "code": "unsupported_schema",
    }


@pytest.mark.parametrize("field", ["ebnf", "guided_grammar", "structural_tag"])
async def test_what_no_grammar_here_reads_is_refused_by_name(client: Any, field: str) -> None:
    answer = await post(client, CHAT, **{field: "root ::= 'a'"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
    assert "response_format, regex or choice" in answer.json()["error"]["message"]


@BOTH
async def test_usage_counts_forced_tokens_of_all_outputs(client: Any, script: Any, endpoint: Any) -> None:
    script.forced = 3
    usage = (await ask(client, endpoint, regex="Hello world", n=2, max_tokens=5))["usage"]
    assert (usage["completion_tokens"], usage["sgframe"]) == (10, {"forced_tokens": 6})


async def test_usage_tells_of_approximations(client: Any, engine: Any) -> None:
    engine.compiler.approximations = ("#/items: 'uniqueItems' is not enforced",)
    usage = (await ask(client, CHAT, json_schema=True, approximate=True))["usage"]
    assert usage["sgframe"] == {"forced_tokens": 0, "approximations": ["#/items: 'uniqueItems' is not enforced"]}


async def test_logprobs_of_forced_tokens_are_marked_in_a_chat(client: Any, script: Any) -> None:
    script.forced = 1
    answer = await ask(client, CHAT, regex="He", max_tokens=2, logprobs=True, top_logprobs=1)
    forced, sampled = answer["choices"][0]["logprobs"]["content"]
    assert forced == {"token": "H", "bytes": [72], "logprob": 0.0, "top_logprobs": [], "forced": True}
    assert "forced" not in sampled


async def test_logprobs_of_forced_tokens_are_marked_in_a_text_completion(client: Any, script: Any) -> None:
    script.forced = 1
    answer = await ask(client, TEXT, regex="He", max_tokens=2, logprobs=1, echo=True)
    logprobs = answer["choices"][0]["logprobs"]
    assert logprobs["tokens"][-2:] == ["H", "e"]
    assert logprobs["token_logprobs"][-2:] == [0.0, -1.0]
    assert logprobs["top_logprobs"][-2] == {"H": 0.0}
    assert logprobs["forced"] == [False, False, False, True, False], "BOS, the prompt, the output"
