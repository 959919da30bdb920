"""/v1/completions, not streamed."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from sgframe.messages import Logprobs, ints
from sgframe_openai.logprobs import TextLogprobs
from sgframe_simulated.tokenizer import ByteTokenizer


async def complete(client: Any, **body: Any) -> Any:
    answer = await client.post("/v1/completions", json={"model": "m", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_answer_has_openai_s_shape(client: Any) -> None:
    answer = await complete(client, prompt="Say hello", max_tokens=5)
    assert answer.pop("id").startswith("cmpl-")
    assert answer.pop("created") > 1_700_000_000
    choice = {"index": 0, "text": "Hello", "logprobs": None, "finish_reason": "length", "matched_stop": None}
    assert answer == {
        "object": "text_completion",
        "model": "m",
        "choices": [choice],
        "usage": {
            "prompt_tokens": 10,  # nine letters and BOS
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("ab", [[256, 97, 98]]),
        (["ab", "c"], [[256, 97, 98], [256, 99]]),
        ([97, 98], [[97, 98]]),
        ([[97, 98], [99]], [[97, 98], [99]]),
    ],
)
async def test_a_prompt_is_text_texts_ids_or_lists_of_ids(client: Any, script: Any, prompt: Any, tokens: Any) -> None:
    script.says = [b"1", b"2"]
    answer = await complete(client, prompt=prompt)
    assert [list(request.tokens) for request in script.requests] == tokens
    assert [choice["text"] for choice in answer["choices"]] == ["1", "2"][: len(tokens)]
    assert answer["usage"]["prompt_tokens"] == sum(map(len, tokens))


async def test_choices_are_numbered_prompt_by_prompt(client: Any, script: Any) -> None:
    script.says = [b"a0", b"a1", b"b0", b"b1"]
    choices = (await complete(client, prompt=["a", "b"], n=2))["choices"]
    assert [(choice["index"], choice["text"]) for choice in choices] == [(0, "a0"), (1, "a1"), (2, "b0"), (3, "b1")]


async def test_sixteen_tokens_unless_told_otherwise(client: Any, script: Any) -> None:
    await complete(client, prompt="x")
    assert script.requests[0].max_tokens == 16


async def test_ignore_eos_goes_on(client: Any) -> None:
    answer = await complete(client, prompt="x", max_tokens=14, ignore_eos=True)
    assert answer["choices"][0]["text"] == "Hello worldHel"


async def test_a_scored_prompt_is_echoed_and_nothing_is_generated(client: Any) -> None:
    prompt = "Your answer: Yes"
    answer = await complete(client, prompt=prompt, echo=True, max_tokens=0, logprobs=1, temperature=0)
    choice = answer["choices"][0]
    assert choice["text"] == prompt
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 0
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == ["<|bos|>", *prompt]
    assert logprobs["token_logprobs"] == [None] + [-2.0] * len(prompt)
    assert logprobs["top_logprobs"] == [None] + [{letter: -2.0} for letter in prompt]
    assert logprobs["text_offset"] == [0, *range(len(prompt))], "BOS is a token without text"


async def test_echo_puts_prompt_and_output_in_the_same_lists(client: Any) -> None:
    answer = await complete(client, prompt=[[97, 98, 99]], echo=True, max_tokens=2, logprobs=1)
    assert answer["choices"][0]["text"] == "abcHe"
    assert answer["choices"][0]["logprobs"] == {
        "tokens": ["a", "b", "c", "H", "e"],
        "token_logprobs": [None, -2.0, -2.0, -1.0, -1.0],
        "top_logprobs": [None, {"b": -2.0}, {"c": -2.0}, {"H": -1.0}, {"e": -1.0}],
        "text_offset": [0, 1, 2, 3, 4],
    }


@pytest.mark.parametrize("n", [1, 2])
async def test_a_prompt_of_one_token_has_one_null(client: Any, n: int) -> None:
    for choice in (await complete(client, prompt=[97], n=n, echo=True, max_tokens=1, logprobs=1))["choices"]:
        assert choice["logprobs"]["token_logprobs"] == [None, pytest.approx(-0.75, abs=0.25)]


async def test_echo_of_several_outputs_repeats_the_prompt_s_logprobs(client: Any) -> None:
    choices = (await complete(client, prompt="ab", n=2, echo=True, max_tokens=1, logprobs=0))["choices"]
    assert [choice["text"] for choice in choices] == ["abH", "abH"]
    assert [choice["logprobs"]["token_logprobs"][:3] for choice in choices] == [[None, -2.0, -2.0]] * 2


async def test_special_tokens_are_left_out_of_an_echo_unless_wanted(client: Any) -> None:
    body = {"prompt": [258, 97], "echo": True, "max_tokens": 0, "logprobs": 0}
    hidden = (await complete(client, **body))["choices"][0]
    assert (hidden["text"], hidden["logprobs"]["text_offset"]) == ("a", [0, 0])
    shown = (await complete(client, **body, skip_special_tokens=False))["choices"][0]
    assert (shown["text"], shown["logprobs"]["text_offset"]) == ("<|im_start|>a", [0, 12])


async def test_offsets_count_characters_not_bytes(client: Any, script: Any) -> None:
    script.says = ["é日x".encode()]
    logprobs = (await complete(client, prompt="a", max_tokens=6, logprobs=0))["choices"][0]["logprobs"]
    assert logprobs["text_offset"] == [0, 0, 1, 1, 1, 2]


async def test_a_choice_of_zero_logprobs_has_the_chosen_token_s(client: Any) -> None:
    logprobs = (await complete(client, prompt="a", max_tokens=1, logprobs=0))["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == [{"H": -1.0}]


def test_of_two_tokens_with_one_text_the_likelier_stays() -> None:
    chosen = Logprobs(0xC4, -2.0, ints([0xC3, 65]), [-1.0, -1.5])
    piece = TextLogprobs(ByteTokenizer(), skip_special_tokens=True).output([chosen])
    assert piece["top_logprobs"] == [{"\ufffd": -1.0, "A": -1.5}]


def test_minus_infinity_is_a_number_that_json_can_write() -> None:
    piece = TextLogprobs(ByteTokenizer(), skip_special_tokens=True).output([Logprobs(65, -inf, ints(), [])])
    assert piece["token_logprobs"] == [-9999.0]


async def test_best_of_returns_the_likeliest_per_token(client: Any, script: Any) -> None:
    script.says = [b"worst", b"fair", b"best"]  # the script's later requests are likelier
    answer = await complete(client, prompt="x", best_of=3, n=2)
    assert [(choice["index"], choice["text"]) for choice in answer["choices"]] == [(0, "best"), (1, "fair")]
    assert answer["choices"][0]["logprobs"] is None
    assert answer["usage"]["completion_tokens"] == 6 + 5 + 5, "the tokens of all three"


async def test_a_refused_prompt_ends_the_others_of_its_request(client: Any, script: Any) -> None:
    script.pause = 60
    answer = await client.post("/v1/completions", json={"model": "m", "prompt": [[1], [2], [99999]]})
    assert answer.status_code == 400
    while len(script.aborts) < 2:
        await asyncio.sleep(0)
    assert script.aborts == ["refused", "refused"]
    assert not script.running


async def test_cached_tokens_add_up_over_prompts(client: Any, script: Any) -> None:
    script.cached = 1
    usage = (await complete(client, prompt=["abc", "def"], n=2))["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}
    assert usage["prompt_tokens"] == 8
