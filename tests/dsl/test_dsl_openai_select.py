"""``sgf.OpenAI``: choices compared by echoed probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from backend_calls import GREEDY, run, select
from scripted_endpoint import Endpoint, Reply, as_json, completion

from sgframe.errors import RequestError
from sgframe_dsl.backends.openai import OpenAI
from sgframe_dsl.errors import BackendError
from sgframe_programs.parts import Cost, Text


@pytest.fixture(scope="module")
def backend(served_endpoint: Endpoint) -> Iterator[OpenAI]:
    backend = OpenAI(served_endpoint.url)
    yield backend
    backend.close()


LOGPROBS = {"Paris": -2.0, "Anti": -9.0, "dis": -0.5, "establish": -0.25, "ment": -0.25}
"""Log probabilities of tokens after anything; other tokens have -1."""
ALONE = {"Paris": -8.0, "Anti": -9.0}
"""The same after a newline alone."""


def echo(cuts: dict[str, list[str]], *, generated: bool = False) -> Callable[[dict[str, Any]], Reply]:
    """Echoes each prompt with the tokens that ``cuts`` has for it."""

    def answer(body: dict[str, Any]) -> Reply:
        choices = []
        for index, prompt in enumerate(body["prompt"]):
            tokens = cuts[prompt]
            table = LOGPROBS | (ALONE if tokens[0] == "\n" else {})
            logprobs = [None, *(table.get(token, -1.0) for token in tokens[1:])]
            text = prompt
            if generated:
                tokens, logprobs, text = [*tokens, "?"], [*logprobs, -99.0], f"{prompt}?"
            told = {
                "tokens": tokens,
                "token_logprobs": logprobs,
                "top_logprobs": None,
                "text_offset": [0] * len(tokens),
            }
            choices.append({"index": index, "text": text, "logprobs": told, "finish_reason": "length"})
        tokens_sent = sum(len(cuts[prompt]) for prompt in body["prompt"])
        return as_json({"choices": choices[::-1], "usage": {"prompt_tokens": tokens_sent, "completion_tokens": 0}})

    return answer


CAPITAL = {
    "Q: ": ["Q", ":", " "],
    "Q: Paris": ["Q", ":", " ", "Paris"],
    "Q: Antidisestablishment": ["Q", ":", " ", "Anti", "dis", "establish", "ment"],
    "\n": ["\n"],
    "\nParis": ["\n", "Paris"],
    "\nAntidisestablishment": ["\n", "Anti", "dis", "establish", "ment"],
}


def test_select_is_one_request_of_all_choices(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = echo(CAPITAL)
    selected = select(backend, "Q: ", ["Paris", "Antidisestablishment"])
    assert endpoint.requests == [
        (
            "/v1/completions",
            {
                "model": "m",
                "prompt": ["Q: ", "Q: Paris", "Q: Antidisestablishment"],
                "echo": True,
                "logprobs": 1,
                "max_tokens": 0,
                "temperature": 0.0,
            },
        )
    ]
    assert selected.index == 0
    assert selected.scores == [-2.0, -2.5]
    assert selected.logprobs == [[-2.0], [-9.0, -0.5, -0.25, -0.25]]
    assert selected.rendered == "Q: "
    assert selected.cost == Cost(9, None, 0, scored_tokens=5)


def test_unconditional_normalized_compares_with_what_follows_a_newline(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = echo(CAPITAL)
    selected = select(backend, "Q: ", ["Antidisestablishment", "Paris"], "unconditional_normalized")
    assert endpoint.bodies[0]["prompt"][3:] == ["\n", "\nAntidisestablishment", "\nParis"]
    assert selected.index == 1
    assert selected.scores == [0.0, 6.0]
    assert selected.unconditional == [[-9.0, -0.5, -0.25, -0.25], [-8.0]]


def test_a_token_across_the_border_counts_for_the_choice(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = echo({"Q: ": ["Q", ":", " "], "Q: Paris": ["Q", ":", " Paris"], "Q: 9": ["Q", ":", " ", "9"]})
    assert select(backend, "Q: ", ["Paris", "9"]).logprobs == [[-1.0], [-1.0, -1.0]]


def test_greedy_token_lets_a_choice_win_by_its_first_token(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = echo(CAPITAL)
    assert select(backend, "Q: ", ["Antidisestablishment", "Paris"], "greedy_token").index == 1


def test_the_text_goes_on_with_the_choice(backend: OpenAI, endpoint: Endpoint) -> None:
    endpoint.script = echo(CAPITAL)
    state = run(backend, backend.open())
    run(backend, backend.select(state, [Text("Q: ")], ["Antidisestablishment", "Paris"], "token_length_normalized"))
    endpoint.script = None
    run(backend, backend.generate(state, [Text(".")], GREEDY))
    assert endpoint.bodies[-1]["prompt"] == "Q: Paris."


def test_where_no_token_may_not_be_asked_for_one_is_and_left_out(endpoint: Endpoint) -> None:
    refusal = as_json({"error": {"message": "must be at least 1", "param": "max_tokens"}}, 400)
    echoing = echo(CAPITAL, generated=True)
    endpoint.script = lambda body: echoing(body) if body["max_tokens"] else refusal
    with closing(OpenAI(endpoint.url)) as backend:
        for _ in range(2):
            assert select(backend, "Q: ", ["Paris", "Antidisestablishment"]).scores == [-2.0, -2.5]
    assert [body["max_tokens"] for body in endpoint.bodies] == [0, 1, 1]


@pytest.mark.parametrize(
    "reply",
    [
        completion("one", "two", "three"),
        as_json({"error": {"message": "this server has no 'echo'", "param": None}}, 400),
        as_json({"error": {"message": "This is a chat model", "param": "model"}}, 404),
    ],
)
def test_an_endpoint_without_echo_is_told_from_one_with_it(backend: OpenAI, endpoint: Endpoint, reply: Reply) -> None:
    endpoint.replies = [reply]
    with pytest.raises(BackendError, match=r"select needs .*echo.*use gen\(choices"):
        select(backend, "Q: ", ["a", "b"])


def test_select_needs_a_text_before_it(backend: OpenAI, endpoint: Endpoint) -> None:
    with pytest.raises(RequestError, match="needs a text before it"):
        select(backend, "", ["a", "b"])
    endpoint.script = echo({"a": ["a"], "ab": ["ab"], "ac": ["ac"]})
    with pytest.raises(RequestError, match="put more text before select"):
        select(backend, "a", ["b", "c"])
