"""/v1/chat/completions, not streamed."""

from __future__ import annotations

from typing import Any

import pytest

USER = {"role": "user", "content": "hi"}


async def ask(client: Any, **body: Any) -> Any:
    answer = await client.post("/v1/chat/completions", json={"model": "m", "messages": [USER], **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def prompt_text(engine: Any, request: int = -1) -> str:
    return b"".join(map(engine.tokenizer.token_bytes, engine.script.requests[request].tokens)).decode()


async def test_the_answer_has_openai_s_shape(client: Any) -> None:
    answer = await ask(client)
    assert answer.pop("id").startswith("chatcmpl-")
    assert answer.pop("created") > 1_700_000_000
    prompt_tokens = len("..user\nhi.\n.assistant\n") - 1  # <|im_start|> and <|im_end|> are one token each, no BOS
    assert answer == {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello world", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
                "matched_stop": 257,
            }
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 12,
            "total_tokens": prompt_tokens + 12,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


async def test_messages_go_through_the_template(client: Any, engine: Any) -> None:
    await ask(client, messages=[{"role": "system", "content": "Be brief."}, USER])
    assert prompt_text(engine) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


async def test_a_developer_is_a_system(client: Any, engine: Any) -> None:
    await ask(client, messages=[{"role": "developer", "content": "Be brief."}, USER])
    assert prompt_text(engine).startswith("<|im_start|>system\nBe brief.<|im_end|>\n")


async def test_text_parts_are_joined_as_they_stand(client: Any, engine: Any) -> None:
    parts = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    await ask(client, messages=[{"role": "user", "content": parts}])
    assert "user\none two<|im_end|>" in prompt_text(engine)


async def test_after_an_assistant_s_message_comes_a_new_turn(client: Any, engine: Any) -> None:
    await ask(client, messages=[USER, {"role": "assistant", "content": "Sure"}])
    assert prompt_text(engine).endswith("assistant\nSure<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("content", [{}, {"content": None}])
async def test_an_assistant_with_tool_calls_needs_no_content(client: Any, engine: Any, content: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    await ask(
        client,
        messages=[
            USER,
            {"role": "assistant", "tool_calls": [call], **content},
            {"role": "tool", "tool_call_id": "c", "content": "Sunny"},
        ],
    )
    assert '"arguments": {"city": "Rome"}' in prompt_text(engine), "templates want an object"
    assert "<|im_start|>tool\nSunny<|im_end|>" in prompt_text(engine)


async def test_messages_that_clients_send_back_may_have_null_fields(client: Any) -> None:
    echoed = {"role": "assistant", "content": "x", "refusal": None, "audio": None, "tool_calls": None, "name": None}
    await ask(client, messages=[USER, echoed, USER])


async def test_template_variables_reach_the_template(client: Any, engine: Any) -> None:
    await ask(client, chat_template_kwargs={"shout": True})
    assert "user\nHI<|im_end|>" in prompt_text(engine)


async def test_tools_pass_when_no_call_is_wanted_and_are_not_shown(client: Any, engine: Any) -> None:
    tools = [{"type": "function", "function": {"name": "weather"}}]
    await ask(client, tools=tools, tool_choice="none")
    assert "weather" not in prompt_text(engine)


async def test_sampling_fields_reach_the_engine(client: Any, script: Any) -> None:
    fields = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "presence_penalty": 1.5,
        "frequency_penalty": -1,
        "repetition_penalty": 1.1,
        "seed": 7,
    }
    await ask(client, **fields, logit_bias={"65": 5}, stop_token_ids=[66], priority=3, cache_salt="s")
    request = script.requests[0]
    assert {name: getattr(request.sampling, name) for name in fields} == fields
    assert request.sampling.logit_bias == {65: 5.0}
    assert 66 in request.stop_ids
    assert request.priority == 3
    assert request.namespace == (("salt", "s"),)


async def test_null_stands_for_an_absent_field(client: Any, script: Any) -> None:
    names = (
        "temperature",
        "top_p",
        "top_k",
        "n",
        "stop",
        "seed",
        "logit_bias",
        "max_tokens",
        "stream",
        "user",
        "tools",
    )
    await ask(client, **dict.fromkeys((*names, "tool_choice", "response_format", "logprobs", "audio", "unheard_of")))
    assert script.requests[0].sampling.temperature == 1.0


async def test_fields_that_change_nothing_pass(client: Any) -> None:
    await ask(
        client,
        user="u",
        metadata={"a": "b"},
        store=True,
        service_tier="auto",
        parallel_tool_calls=False,
        response_format={"type": "text"},
        modalities=["text"],
        tools=[],
        functions=[],
        best_of=1,
    )


async def test_an_answer_may_fill_the_rest_of_the_context(client: Any, script: Any) -> None:
    await ask(client)
    assert script.requests[0].max_tokens == 4000 - len(script.requests[0].tokens)


async def test_max_completion_tokens_beats_max_tokens(client: Any) -> None:
    answer = await ask(client, max_tokens=9, max_completion_tokens=3)
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_a_stop_string_cuts_and_is_named(client: Any) -> None:
    choice = (await ask(client, stop=["xyz", "lo wor"]))["choices"][0]
    assert choice["message"]["content"] == "Hel"
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", "lo wor")


async def test_n_outputs_are_n_choices(client: Any, script: Any) -> None:
    script.says = [b"one", b"two", b"three"]
    answer = await ask(client, n=3)
    assert [(c["index"], c["message"]["content"]) for c in answer["choices"]] == [(0, "one"), (1, "two"), (2, "three")]
    assert answer["usage"]["completion_tokens"] == 4 + 4 + 6, "all that was generated"
    assert len({request.sampling.seed for request in script.requests}) == 3


async def test_cached_tokens_are_told(client: Any, script: Any) -> None:
    script.cached = 5
    assert (await ask(client))["usage"]["prompt_tokens_details"] == {"cached_tokens": 5}


async def test_logprobs_have_token_bytes_and_alternatives(client: Any, script: Any) -> None:
    script.says = ["é".encode()]
    content = (await ask(client, logprobs=True, top_logprobs=2, max_tokens=2))["choices"][0]["logprobs"]["content"]
    assert content[0] == {
        "token": "\ufffd",
        "bytes": [0xC3],
        "logprob": -1.0,
        "top_logprobs": [
            {"token": "\ufffd", "bytes": [0xC3], "logprob": -1.0},
            {"token": "\ufffd", "bytes": [0xC4], "logprob": -2.0},
        ],
    }
    assert [entry["bytes"] for entry in content] == [[0xC3], [0xA9]]


async def test_logprobs_without_alternatives(client: Any) -> None:
    content = (await ask(client, logprobs=True, max_tokens=1))["choices"][0]["logprobs"]["content"]
    assert content == [{"token": "H", "bytes": [72], "logprob": -1.0, "top_logprobs": []}]
