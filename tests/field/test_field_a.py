"""What broke the HTTP API of other servers, asked of a running one; after each request it must answer the next."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import wait_for

TEXT = "/v1/completions"
CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}
pytestmark = pytest.mark.timeout(900)  # the first use of the demo model fetches it
RECORDED = Path(__file__).parents[1] / "data" / "client_requests"


@pytest.fixture(autouse=True)
def the_server_goes_on(client: httpx.Client, checks: Any) -> Iterator[None]:
    yield
    checks.goes_on(client)


def ask(client: httpx.Client, path: str = TEXT, **body: Any) -> Any:
    answer = client.post(path, json={"model": "simulated", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def chunks(client: httpx.Client, path: str = TEXT, **body: Any) -> list[Any]:
    """The decoded events of a stream, which must end with [DONE]."""
    answer = client.post(path, json={"model": "simulated", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    *events, done = answer.text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def streamed_text(client: httpx.Client, path: str = TEXT, **body: Any) -> dict[int, str]:
    texts: defaultdict[int, str] = defaultdict(str)
    for chunk in chunks(client, path, **body):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "") if "delta" in choice else choice["text"]
    return dict(texts)


def refusal(client: httpx.Client, path: str, body: Any, status: int = 400) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (sorted(error), error["type"]) == (["code", "message", "param", "type"], "invalid_request_error")
    return error


# ------------------------------------------------------------------------------------------ prompts


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["", [], [""], [[]], ["a", ""], [[97], []], None, [None], [[None]], {}, 5, True])
def test_an_empty_prompt_in_any_form_is_refused(client: httpx.Client, prompt: Any, stream: bool) -> None:
    body = {"model": "simulated", "prompt": prompt, "max_tokens": 20, "temperature": 0, "stream": stream}
    assert refusal(client, TEXT, body)["param"].startswith("prompt")


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("ab", ["ab"]),  # BOS comes first and has no text
        (["ab", "c"], ["ab", "c"]),
        ([97, 98], ["aba"]),
        ([[97, 98], [99]], ["aba", "ccc"]),
    ],
)
def test_the_four_forms_of_a_prompt_are_answered_in_order(client: httpx.Client, prompt: Any, texts: list[str]) -> None:
    choices = ask(client, prompt=prompt, max_tokens=3)["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(texts)))
    assert [choice["text"] for choice in choices] == texts


@pytest.mark.parametrize(
    "prompt", [[97, "a"], ["a", [97]], [97, [97]], [260], [[97], [-1]], [97, True], [97.5], [2**40]]
)
def test_mixed_and_impossible_prompts_are_refused(client: httpx.Client, prompt: Any) -> None:
    assert refusal(client, TEXT, {"model": "simulated", "prompt": prompt})["param"].startswith("prompt")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("logprobs", [0, 1, 5])
def test_a_scored_prompt_comes_back_with_a_logprob_for_each_token(
    client: httpx.Client, logprobs: int, stream: bool
) -> None:
    body = {"prompt": "Your answer: Yes", "echo": True, "max_tokens": 0, "logprobs": logprobs}
    if stream:
        (choice,) = (chunk["choices"][0] for chunk in chunks(client, **body))
    else:
        answer = ask(client, **body)
        assert answer["usage"]["completion_tokens"] == 0
        choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("Your answer: Yes", "length")
    assert choice["logprobs"]["token_logprobs"] == [None] + [-1.0] * 16
    tops = choice["logprobs"]["top_logprobs"]
    assert tops[0] is None
    assert {len(top) for top in tops[1:]} == {max(logprobs, 1)}


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_the_context_is_usable_to_its_last_token_and_nothing_is_cut(client: httpx.Client, path: str) -> None:
    if path == TEXT:
        fits, overhead = {"prompt": [97] * 4095}, 0
    else:
        overhead = ask(client, CHAT, messages=[USER], max_tokens=1)["usage"]["prompt_tokens"] - len("hi")
        fits = {"messages": [{"role": "user", "content": "a" * (4095 - overhead)}]}
    assert ask(client, path, **fits, max_tokens=1)["usage"]["total_tokens"] == 4096
    over = {"prompt": [97] * 4096} if path == TEXT else {"messages": [{**USER, "content": "a" * (4096 - overhead)}]}
    error = refusal(client, path, {"model": "simulated", **over, "max_tokens": 1})
    assert error["code"] == "context_length_exceeded"
    assert "4096 tokens and max_tokens is 1, together 4097" in error["message"]


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_ten_megabytes_of_text_are_refused_with_their_length(client: httpx.Client, path: str) -> None:
    text = "x" * 10_000_000
    body = {"prompt": text} if path == TEXT else {"messages": [{**USER, "content": text}]}
    error = refusal(client, path, {"model": "simulated", **body, "max_tokens": 1})
    assert error["code"] == "context_length_exceeded"
    assert "10000" in error["message"]


def test_while_a_long_text_is_encoded_others_are_answered(demo: httpx.Client) -> None:
    refused: list[httpx.Response] = []
    body = {"model": "m", "prompt": "a1b2" * 200_000, "max_tokens": 1}
    encoding = threading.Thread(target=lambda: refused.append(demo.post(TEXT, json=body)))
    encoding.start()
    answered = 0
    while encoding.is_alive():
        assert demo.get("/health").status_code == 200
        answered += 1
    assert answered > 5
    assert refused[0].json()["error"]["code"] == "context_length_exceeded"


# ------------------------------------------------------------------------------------------ stop strings, characters


@pytest.mark.parametrize("stop", ["DEFGHIJ", ["DEFGHIJ"], ["xyz", "DEFGHIJ"], ["DEFGHIJ", "GHIJ"]])
def test_no_part_of_a_stop_string_is_streamed(client: httpx.Client, stop: Any) -> None:
    body = {"prompt": list(b"ABCDEFGHIJKL"), "max_tokens": 30, "stop": stop}
    whole = ask(client, **body)["choices"][0]
    assert (whole["text"], whole["finish_reason"]) == ("ABC", "stop")
    assert whole["matched_stop"] == "DEFGHIJ"
    assert streamed_text(client, **body) == {0: "ABC"}


def test_a_stop_string_is_found_across_and_inside_tokens(demo: httpx.Client) -> None:
    body = {"model": "m", "prompt": "1, 2, 3, 4, 5, 6,", "temperature": 0, "max_tokens": 12}
    text = ask(demo, **body)["choices"][0]["text"]
    assert text.startswith(" 7, 8, 9")
    for start, end in ((1, 3), (2, 6), (4, 11)):
        stop = text[start:end]
        cut = ask(demo, **body, stop=stop)["choices"][0]
        assert (cut["text"], cut["finish_reason"]) == (text[: text.index(stop)], "stop")
        assert streamed_text(demo, **body, stop=stop) == {0: cut["text"]}


@pytest.mark.parametrize(("stop", "hit", "text"), [(["a", "c"], "c", "xyb"), (["q", "b", "c", "y", "z"], "y", "x")])
def test_the_client_learns_which_stop_string_hit(client: httpx.Client, stop: list[str], hit: str, text: str) -> None:
    choice = ask(client, prompt=list(b"xybca"), max_tokens=9, stop=stop)["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["matched_stop"]) == (text, "stop", hit)


@pytest.mark.parametrize("stop", [[""], "", ["a", ""], ["a", 5], [None], ["x"] * 65, {}, 5])
def test_a_stop_string_that_cannot_be_is_refused(client: httpx.Client, stop: Any) -> None:
    assert refusal(client, TEXT, {"model": "simulated", "prompt": "x", "stop": stop})["param"].startswith("stop")


@pytest.mark.parametrize("limit", range(1, 43))
def test_a_character_is_whole_or_at_the_end_one_replacement(client: httpx.Client, limit: int) -> None:
    said = "🙂👨‍👩‍👧 日本語 é".encode()
    body = {"prompt": list(said), "max_tokens": limit}
    text = ask(client, **body)["choices"][0]["text"]
    assert text == (said * 2)[:limit].decode("utf-8", "replace")
    assert streamed_text(client, **body) == {0: text}


def test_an_emoji_of_a_real_model_is_never_torn(demo: httpx.Client) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Write three emoji."}], "temperature": 0}
    whole = ask(demo, CHAT, **body, max_tokens=8)["choices"][0]["message"]["content"]
    assert max(whole) > "\uffff"
    for limit in range(1, 9):
        text = streamed_text(demo, CHAT, **body, max_tokens=limit)[0]
        assert whole.startswith(text.removesuffix("\ufffd"))


# ------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("path", [TEXT, CHAT])
@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}, None])
def test_usage_is_in_the_last_chunk_alone_and_only_if_asked_for(client: httpx.Client, path: str, options: Any) -> None:
    base = {"prompt": "abc"} if path == TEXT else {"messages": [USER]}
    *others, last = chunks(client, path, **base, max_tokens=3, stream_options=options)
    if options and options["include_usage"]:
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == 3
        assert all(chunk["usage"] is None for chunk in others)
    else:
        assert all("usage" not in chunk for chunk in (*others, last))


@pytest.mark.parametrize("path", [TEXT, CHAT])
@pytest.mark.parametrize("stream", [{}, {"stream": False}, {"stream": None}])
def test_stream_options_without_a_stream_are_refused(client: httpx.Client, path: str, stream: Any) -> None:
    base = {"prompt": "abc"} if path == TEXT else {"messages": [USER]}
    body = {"model": "simulated", **base, **stream, "stream_options": {"include_usage": True}}
    assert refusal(client, path, body)["param"] == "stream_options"


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_the_finish_reason_is_null_until_the_last_chunk_of_each_choice(client: httpx.Client, path: str) -> None:
    base = {"prompt": "abc"} if path == TEXT else {"messages": [USER]}
    reasons: defaultdict[int, list[Any]] = defaultdict(list)
    for chunk in chunks(client, path, **base, max_tokens=5, n=3):
        for choice in chunk["choices"]:
            reasons[choice["index"]].append(choice["finish_reason"])
    assert sorted(reasons) == [0, 1, 2]
    for *earlier, last in reasons.values():
        assert set(earlier) == {None}
        assert last == "length"


def test_lm_eval_scores_with_the_real_model_as_recorded(demo: httpx.Client) -> None:
    for line in (RECORDED / "lm-eval_hs_local_tokenized_True.jsonl").read_text().splitlines():
        logprobs = ask(demo, **(body := json.loads(line)["body"]))["choices"][0]["logprobs"]
        (prompt,) = body["prompt"]
        assert {len(values) for values in logprobs.values()} == {len(prompt) + 1}
        assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
        assert logprobs["text_offset"] == sorted(logprobs["text_offset"])
        columns = (logprobs[name][1:] for name in ("tokens", "token_logprobs", "top_logprobs"))
        for token, logprob, top in zip(*columns, strict=True):
            assert top[token] == logprob
            assert max(top.values()) >= logprob


def test_hot_samples_differ_and_a_seed_brings_them_back(demo: httpx.Client) -> None:
    body = {"model": "m", "prompt": "Once upon a time", "n": 8, "temperature": 0.9, "max_tokens": 12}
    assert len({choice["text"] for choice in ask(demo, **body)["choices"]}) > 1
    first, again = (ask(demo, **body, seed=5)["choices"] for _ in range(2))
    assert [choice["text"] for choice in first] == [choice["text"] for choice in again]
    assert len({choice["text"] for choice in first}) == 8
    assert streamed_text(demo, **body, seed=5) == {choice["index"]: choice["text"] for choice in first}


# ------------------------------------------------------------------------------------------ conversations

CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": "Let me see."}])
@pytest.mark.parametrize("result", ["Sunny", [{"type": "text", "text": "Sunny"}]])
def test_a_follow_up_of_a_tool_call_is_answered(client: httpx.Client, content: Any, result: Any) -> None:
    turns = [
        USER,
        {"role": "assistant", "tool_calls": [CALL], **content},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]
    assert ask(client, CHAT, messages=turns, max_tokens=2)["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    "roles",
    [
        ["system"],
        ["user", "user"],
        ["system", "user", "system", "user"],
        ["user", "assistant"],
        ["assistant"],
        ["developer", "user"],
    ],
)
def test_roles_in_any_order_are_answered_where_the_template_can(demo: httpx.Client, roles: list[str]) -> None:
    turns = [{"role": role, "content": "hello"} for role in roles]
    assert ask(demo, CHAT, model="m", messages=turns, max_tokens=2)["usage"]["completion_tokens"] >= 1


@pytest.mark.parametrize(
    "messages", [[], None, [{"role": "robot", "content": "hi"}], [{"role": None, "content": "hi"}]]
)
def test_no_messages_and_unknown_roles_are_refused(client: httpx.Client, messages: Any) -> None:
    assert refusal(client, CHAT, {"model": "simulated", "messages": messages})["param"].startswith("messages")


# ------------------------------------------------------------------------------------------ bodies and fields


@pytest.mark.parametrize("path", [TEXT, CHAT, "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    "body",
    [
        *[b"", b"{x", b"{not json", b"\xff\xfe", b"[]", b'"str"', b"null", b"[" * 100_000, b"[" * 10**5 + b"]" * 10**5],
        *[
            b'{"temperature": NaN}',
            b'{"temperature": Infinity}',
            b'{"logit_bias": {"5": 1e400}}',
            b'{"prompt": "\xff"}',
        ],
    ],
    ids=lambda body: repr(body[:16]),
)
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, path: str, body: bytes) -> None:
    refusal(client, path, body)


@pytest.mark.parametrize("path", [TEXT, CHAT])
@pytest.mark.parametrize("model", [{"model": "a model that does not exist"}, {"model": None}, {}, {"model": ""}])
def test_an_unknown_model_is_not_found(client: httpx.Client, path: str, model: Any) -> None:
    base = {"prompt": "x"} if path == TEXT else {"messages": [USER]}
    assert refusal(client, path, {**base, **model}, 404)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        *[(CHAT, {"logprobs": True, "top_logprobs": k}, "top_logprobs") for k in (10**6, 21, -1, 2**63, 1.5, True)],
        *[(TEXT, {"logprobs": k}, "logprobs") for k in (6, -1, 10**6, True, 2**63)],
        (TEXT, {"temperature": 0, "max_tokens": 0, "echo": True, "logprobs": 10}, "logprobs"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_more_alternatives_than_offered_are_refused(
    client: httpx.Client, path: str, fields: Any, param: str, stream: bool
) -> None:
    base = {"prompt": "x"} if path == TEXT else {"messages": [USER]}
    assert refusal(client, path, {"model": "simulated", "stream": stream, **base, **fields})["param"] == param


def test_no_alternatives_are_legal(client: httpx.Client) -> None:
    chat = ask(client, CHAT, messages=[USER], max_tokens=1, logprobs=True, top_logprobs=0)
    assert chat["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    assert ask(client, prompt=[97], max_tokens=1, logprobs=0)["choices"][0]["logprobs"]["token_logprobs"] == [-1.0]


@pytest.mark.parametrize("path", [TEXT, CHAT])
@pytest.mark.parametrize(
    "fields",
    [
        *[{"logit_bias": {key: -100}} for key in ("191222", "260", "AI", "-1", "1.5", "", "9" * 30)],
        {"logit_bias": {str(token): -1 for token in range(2000)}},
        *[{"logit_bias": {"5": value}} for value in ("x", None, True, 101, [])],
        *[{"stop_token_ids": ids} for ids in ([260], [-1], [2**63], ["a"], [True])],
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_token_ids_outside_the_vocabulary_are_refused(client: httpx.Client, path: str, fields: Any) -> None:
    base = {"prompt": "x"} if path == TEXT else {"messages": [USER]}
    (name,) = fields
    assert refusal(client, path, {"model": "simulated", **base, **fields})["param"].startswith(name)


# ------------------------------------------------------------------------------------------ clients that leave


def leave(client: httpx.Client, path: str, body: Any) -> None:
    """Ask, and go away after the first byte or, where none comes, after 50 ms."""
    with (
        suppress(httpx.ReadTimeout),
        httpx.Client(base_url=client.base_url, timeout=httpx.Timeout(5, read=0.05)) as visitor,
        visitor.stream(
            "POST", path, json={"model": "simulated", "max_tokens": 3900, "ignore_eos": True, **body}
        ) as answer,
    ):
        next(answer.iter_raw())


@pytest.mark.parametrize("path", [TEXT, CHAT])
@pytest.mark.parametrize("stream", [True, False])
def test_of_two_hundred_clients_that_leave_nothing_stays(
    client: httpx.Client, checks: Any, path: str, stream: bool
) -> None:
    before = checks.comes_to_rest(client)["generated_tokens"]
    for _ in range(50):
        leave(client, path, {"stream": stream} | ({"prompt": "abc"} if path == TEXT else {"messages": [USER]}))
    assert checks.comes_to_rest(client)["generated_tokens"] - before < 50 * 3900 / 2


def test_a_client_that_left_is_logged_with_the_cause(server: Any, client: httpx.Client) -> None:
    headers = {"X-Request-Id": "the-one-that-left"}
    body = {"model": "simulated", "prompt": "abc", "max_tokens": 3900, "ignore_eos": True, "stream": True}
    with (
        httpx.Client(base_url=client.base_url) as visitor,
        visitor.stream("POST", TEXT, json=body, headers=headers) as a,
    ):
        next(a.iter_raw())
    wait_for(lambda: "request the-one-that-left ended: abort (disconnect);" in server.output, 5, "the line in the log")
