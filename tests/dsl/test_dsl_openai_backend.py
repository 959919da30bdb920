"""``sgf.OpenAI``: what it asks of an endpoint, and what it refuses to ask."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from backend_calls import GREEDY, QUESTION, generate, run, select
from scripted_endpoint import Endpoint, chat
from servers import SIMULATED, served

from sgframe.constraints import Constraint
from sgframe.errors import RequestError
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.openai import OpenAI
from sgframe_dsl.errors import BackendClosed
from sgframe_programs.parts import Begin, Branch, Cost, End, Generated, Output, Part, Text


@pytest.fixture(scope="module")
def backend(served_endpoint: Endpoint) -> Iterator[OpenAI]:
    backend = OpenAI(served_endpoint.url)
    yield backend
    backend.close()


# ------------------------------------------------------------------------------------------ what is sent


def test_a_program_without_roles_is_a_text_completion(backend: OpenAI, endpoint: Endpoint) -> None:
    generated = generate(backend, Text("Capital of "), Text("France:"))
    assert endpoint.requests == [
        (
            "/v1/completions",
            {"model": "m", "prompt": "Capital of France:", "temperature": 0.0, "top_p": 1.0, "max_tokens": 8},
        )
    ]
    assert generated == Generated([Output(" Paris", [], "stop")], Cost(7, None, 2), "Capital of France:")


def test_each_call_sends_the_whole_text(backend: OpenAI, endpoint: Endpoint) -> None:
    state = run(backend, backend.open())
    run(backend, backend.generate(state, [Text("A")], GREEDY))
    run(backend, backend.generate(state, [Text(" and")], GREEDY))
    assert [body["prompt"] for body in endpoint.bodies] == ["A", "A Paris and"]


def test_a_program_with_roles_is_a_chat(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.replies = [chat("Paris")]
    state = run(backend, backend.open())
    generated = run(backend, backend.generate(state, QUESTION, GREEDY))
    run(backend, backend.generate(state, [End(), Begin("user"), Text("Sure?"), End(), Begin("assistant")], GREEDY))
    path, body = endpoint.requests[1]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [
        {"role": "user", "content": "Capital of France?"},
        {"role": "assistant", "content": "Paris"},
        {"role": "user", "content": "Sure?"},
    ]
    assert (generated.rendered, generated.outputs[0].text) == ("user: Capital of France?\nassistant: ", "Paris")


def test_forks_go_their_own_ways_and_are_joined_by_their_texts(backend: OpenAI, endpoint: Endpoint) -> None:
    root = run(backend, backend.open())
    assert run(backend, backend.extend(root, [Text("Root.")])) == "Root."
    one, two = run(backend, backend.fork(root, 2))
    run(backend, backend.generate(one, [Text(" One:")], GREEDY))
    run(backend, backend.generate(two, [Text(" Two:")], GREEDY))
    assert run(backend, backend.extend(root, [Branch(one), Branch(two)])) == " One: Paris Two: Paris"
    run(backend, backend.generate(root, [Text(" So")], GREEDY))
    assert [body["prompt"] for body in endpoint.bodies] == [
        "Root. One:",
        "Root. Two:",
        "Root. One: Paris Two: Paris So",
    ]


@pytest.mark.parametrize(
    ("params", "fields"),
    [
        ({"stop": ("\n", "."), "seed": 3}, {"stop": ["\n", "."], "seed": 3}),
        ({"presence_penalty": 0.5, "frequency_penalty": -1.0}, {"presence_penalty": 0.5, "frequency_penalty": -1.0}),
        ({"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2}, {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2}),
        ({"stop_token_ids": (2, 7), "ignore_eos": True}, {"stop_token_ids": [2, 7], "ignore_eos": True}),
        ({"logit_bias": {5: -100.0}, "logprobs": 2}, {"logit_bias": {"5": -100.0}, "logprobs": 2}),
        (
            {"include_stop": True, "skip_special_tokens": False},
            {"include_stop_str_in_output": True, "skip_special_tokens": False},
        ),
    ],
)
def test_sampling_parameters_are_sent_by_their_names(
    backend: OpenAI, endpoint: Endpoint, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    generate(backend, Text("a"), params=SamplingParams(max_tokens=4, **params))
    expected = {"model": "m", "prompt": "a", "temperature": 1.0, "top_p": 1.0, "max_tokens": 4}
    assert endpoint.bodies == [expected | fields]


SCHEMA = {"name": "answer", "schema": {"type": "integer"}, "strict": True}


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        (Constraint("regex", "[a-z]+"), {"structured_outputs": {"regex": "[a-z]+"}}),
        (Constraint("choice", '[" Paris", "Rome"]'), {"structured_outputs": {"choice": [" Paris", "Rome"]}}),
        (
            Constraint("json_schema", '{"type": "integer"}'),
            {"response_format": {"type": "json_schema", "json_schema": SCHEMA}},
        ),
        (
            Constraint("json_object", "", whitespace="compact", approximate=True, grammar="g"),
            {
                "response_format": {"type": "json_object"},
                "whitespace": "compact",
                "approximate": True,
                "grammar": "g",
            },
        ),
    ],
)
def test_constraints_are_sent_as_openai_and_vllm_spell_them(
    backend: OpenAI, endpoint: Endpoint, constraint: Constraint, fields: dict[str, Any]
) -> None:
    generate(backend, Text("a"), params=SamplingParams(max_tokens=4, constraint=constraint))
    extra = {"model", "prompt", "temperature", "top_p", "max_tokens"}
    assert {name: value for name, value in endpoint.bodies[0].items() if name not in extra} == fields


def test_a_choice_needs_no_max_tokens(backend: OpenAI, endpoint: Endpoint) -> None:
    choices = Constraint("choice", '[" Paris", "Zürich"]')
    generate(backend, Text("a"), params=SamplingParams(constraint=choices))
    assert endpoint.bodies[0]["max_tokens"] == 8  # seven bytes of "Zürich", and the end


def test_a_chat_without_max_tokens_may_fill_the_context(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.replies = [chat("Paris")]
    generate(backend, *QUESTION, params=SamplingParams(logprobs=2))
    body = endpoint.bodies[0]
    assert "max_tokens" not in body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)


def test_the_key_the_model_and_extra_fields_go_with_every_request(endpoint: Endpoint) -> None:
    extra = {"cache_salt": "s", "top_p": None}
    with closing(OpenAI(endpoint.url, model="other", api_key="secret", extra_body=extra)) as backend:
        generate(backend, Text("a"))
    assert endpoint.headers["Authorization"] == "Bearer secret"
    assert endpoint.bodies == [
        {"model": "other", "prompt": "a", "temperature": 0.0, "max_tokens": 8, "cache_salt": "s"}
    ]


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_path_is_v1_with_or_without_saying_so(endpoint: Endpoint, suffix: str) -> None:
    with closing(OpenAI(endpoint.url + suffix)) as backend:
        generate(backend, Text("a"))
    assert endpoint.requests[0][0] == "/v1/completions"


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host/v1", "http://", "http://host:port"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        OpenAI(url)


def test_a_backend_that_is_closed_takes_nothing_and_leaves_no_thread(endpoint: Endpoint) -> None:
    before = set(threading.enumerate())
    backend = OpenAI(endpoint.url)
    assert set(threading.enumerate()) == before
    run(backend, backend.open())
    assert len(set(threading.enumerate()) - before) == 1
    backend.close()
    backend.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(BackendClosed):
        backend.schedule(backend.open())


def test_text_that_no_request_can_carry_is_refused(backend: OpenAI, endpoint: Endpoint) -> None:
    with pytest.raises(RequestError, match="half a surrogate pair"):
        generate(backend, Text("a\ud800"))
    assert endpoint.requests == []


# ------------------------------------------------------------------------------------------ what cannot be said


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([Text("a"), *QUESTION], "'a' stands outside of the chat's turns"),
        ([*QUESTION, Text("It is")], "already has 'It is'.*continue_turns=True"),
        ([Begin("user"), Text("a")], "gen stands in a turn of 'user'"),
        ([Begin("user"), Text("a"), End()], "gen stands between turns"),
    ],
)
def test_what_a_chat_cannot_do_is_refused_before_it_is_sent(
    backend: OpenAI, endpoint: Endpoint, parts: list[Part], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        generate(backend, *parts)
    assert endpoint.requests == []


def test_a_turn_goes_on_where_the_endpoint_can(endpoint: Endpoint) -> None:
    endpoint.replies = [chat(" Paris")]
    with closing(OpenAI(endpoint.url, continue_turns=True)) as backend:
        generate(backend, *QUESTION, Text("It is"))
    body = endpoint.bodies[0]
    assert body["messages"][-1] == {"role": "assistant", "content": "It is"}
    assert (body["add_generation_prompt"], body["continue_final_message"]) == (False, True)


def test_a_text_completion_without_max_tokens_is_refused(backend: OpenAI, endpoint: Endpoint) -> None:
    with pytest.raises(RequestError, match="max_tokens is missing"):
        generate(backend, Text("a"), params=SamplingParams())
    assert endpoint.requests == []


def test_select_in_a_chat_is_refused(backend: OpenAI, endpoint: Endpoint) -> None:
    state = run(backend, backend.open())
    with pytest.raises(RequestError, match=r"gen\(choices"):
        run(backend, backend.select(state, QUESTION, ["a", "b"], "token_length_normalized"))
    assert endpoint.requests == []


# ------------------------------------------------------------------------------------------ our own server


def test_every_operation_works_against_our_own_server() -> None:
    with served(*SIMULATED, "--set", "simulated.mode=echo") as server, closing(OpenAI(server.url)) as backend:
        text = generate(backend, Text("abcdef"), params=SamplingParams(temperature=0.0, max_tokens=3))
        assert text.cost.prompt_tokens == 7
        assert text.cost.cached_tokens == 0
        heard: list[str] = []
        streamed = generate(backend, *QUESTION, on_text=heard.append)
        assert "".join(heard) == streamed.outputs[0].text
        schema = Constraint("json_schema", json.dumps({"type": "object", "additionalProperties": False}))
        made = generate(backend, Text("a"), params=SamplingParams(max_tokens=9, constraint=schema))
        assert made.outputs[0].text == "{}"
        choice = Constraint("choice", '["yes", "no"]')
        assert generate(backend, Text("a"), params=SamplingParams(constraint=choice)).outputs[0].text in (
            "yes",
            "no",
        )
        selected = select(backend, "Is it? ", ["yes", "no", "nope"], "unconditional_normalized")
        assert [len(logprobs) for logprobs in selected.logprobs] == [3, 2, 4]
        assert [len(logprobs) for logprobs in selected.unconditional] == [3, 2, 4]
        with pytest.raises(RequestError, match="regex"):
            generate(backend, Text("a"), params=SamplingParams(max_tokens=1, constraint=Constraint("regex", "(")))
