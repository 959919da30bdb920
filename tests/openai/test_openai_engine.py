"""The HTTP front-end on a whole engine, all processes as threads, with the simulated model that repeats its prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from sgframe.assembly.assemble import assemble
from sgframe.front.async_engine import AsyncEngine
from sgframe_openai.server import HttpServer

VALUES = {
    **dict.fromkeys(("model", "backend", "source"), "simulated"),
    "transport": "inproc",
    "served_model_name": "m",
    "port": 0,
    "kv_slots": 4096,
    "context_length": 1024,
    "debug_tree": "text",
    "plugin": {"simulated": {"step_seconds": 0.002}},
}


@pytest.fixture
async def whole_engine() -> AsyncIterator[AsyncEngine]:
    configuration, choices = assemble(VALUES, None, {})
    engine = await AsyncEngine.start(configuration.settings, choices)
    yield engine
    await engine.close()


@pytest.fixture
async def http(whole_engine: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    server = HttpServer(whole_engine)
    host, port = await server.start()
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
        yield client
    await server.stop(1)


async def complete(http: httpx.AsyncClient, **body: Any) -> Any:
    answer = await http.post("/v1/completions", json={"model": "m", "temperature": 0, "ignore_eos": True, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_cache_is_told_truly(http: httpx.AsyncClient) -> None:
    prompt = list(b"a prompt of some length")
    cold = await complete(http, prompt=prompt, max_tokens=8)
    warm = await complete(http, prompt=prompt, max_tokens=8)
    assert cold["choices"][0]["text"] == warm["choices"][0]["text"] == "a prompt"
    assert cold["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert warm["usage"]["prompt_tokens_details"] == {"cached_tokens": len(prompt) - 1}


async def test_another_salt_shares_nothing(http: httpx.AsyncClient) -> None:
    prompt = list(b"a prompt of some length")
    await complete(http, prompt=prompt, cache_salt="a")
    other = await complete(http, prompt=prompt, cache_salt="")
    assert other["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_flush_forgets(http: httpx.AsyncClient) -> None:
    prompt = list(b"a prompt of some length")
    await complete(http, prompt=prompt)
    assert (await http.post("/flush_cache")).json()["flushed_tokens"] >= len(prompt)
    cold = await complete(http, prompt=prompt)
    assert cold["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


def cache_report(answer: Any) -> Any:
    return answer["usage"]["sgframe"]["cache"]


async def test_each_answer_says_why_its_prompt_missed(http: httpx.AsyncClient) -> None:
    prompt = list(b"a prompt of some length")
    assert cache_report(await complete(http, prompt=prompt)) == {"matched": 0, "reason": "never_seen"}
    assert cache_report(await complete(http, prompt=prompt)) == {"matched": len(prompt) - 1, "reason": "last_token"}
    assert cache_report(await complete(http, prompt=[*prompt[:9], 0, 0])) == {"matched": 9, "reason": "never_seen"}
    assert cache_report(await complete(http, prompt=prompt, cache_salt="a"))["reason"] == "never_seen"
    await http.post("/flush_cache")
    evicted = cache_report(await complete(http, prompt=prompt))
    assert (evicted["matched"], evicted["reason"], evicted["evicted_by"]) == (0, "evicted", "flush")
    assert 0 <= evicted["evicted_ago"] < 100


async def test_the_tree_shows_what_is_cached_and_what_was_reused(http: httpx.AsyncClient) -> None:
    for question in ("who?", "what?", "what?"):
        await complete(http, prompt=f"The same beginning: {question}", max_tokens=1)
    await complete(http, prompt="another", max_tokens=1, cache_salt="hush")
    answer = await http.get("/debug/tree")
    tree = answer.json()
    assert (tree["cache"], tree["truncated"], tree["total_nodes"]) == ("radix", False, len(tree["nodes"]))
    hottest = tree["nodes"][0]
    assert hottest["text"] == "<|bos|>The same beginning: wh"
    assert (hottest["hits"], hottest["locks"], hottest["tokens"]) == (2, 0, 23)
    children = [node["text"] for node in tree["nodes"] if node.get("parent") == hottest["id"]]
    assert [child[:2] for child in children] == ["at", "o?"]
    salted = next(node for node in tree["nodes"] if node.get("namespace"))
    assert salted["text"].startswith("<|bos|>another")
    assert "hush" not in answer.text


async def test_after_a_hundred_requests_the_slots_add_up_and_none_is_leased(
    http: httpx.AsyncClient, whole_engine: AsyncEngine
) -> None:
    await complete(http, prompt="prompt 0", max_tokens=4)
    await asyncio.gather(*(complete(http, prompt=f"prompt {i}", max_tokens=4) for i in range(1, 100)))
    while whole_engine.stats().running or whole_engine.stats().slots_leased:
        await asyncio.sleep(0.01)
    lines = (await http.get("/metrics")).text.splitlines()
    gauges = dict(line.rsplit(" ", 1) for line in lines if line.startswith("sgframe_"))
    free, cached, leased = (float(gauges[f'sgframe_kv_slots{{state="{s}"}}']) for s in ("free", "cached", "leased"))
    assert (free + cached, leased) == (4096, 0)
    assert cached >= 100, "each prompt ended in a token of its own"
    assert float(gauges["sgframe_cached_tokens_total"]) >= 99 * len("<prompt "), (
        "after the first each found its beginning"
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_a_scored_prompt_has_a_logprob_for_every_token(http: httpx.AsyncClient, stream: bool) -> None:
    body = {"model": "m", "prompt": "score me", "echo": True, "max_tokens": 0, "logprobs": 1, "n": 2, "stream": stream}
    answer = await http.post("/v1/completions", json=body)
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    choices = [event["choices"][0] for event in events] if stream else answer.json()["choices"]
    assert sorted(choice["index"] for choice in choices) == [0, 1]
    for choice in choices:
        assert choice["text"] == "score me"
        assert choice["logprobs"]["tokens"] == ["<|bos|>", *"score me"]
        assert choice["logprobs"]["token_logprobs"][0] is None
        assert all(isinstance(value, float) for value in choice["logprobs"]["token_logprobs"][1:])


async def test_clients_that_leave_give_their_slots_back(http: httpx.AsyncClient, whole_engine: AsyncEngine) -> None:
    async def leave(i: int) -> None:
        body = {"model": "m", "prompt": f"prompt {i}", "max_tokens": 900, "ignore_eos": True, "stream": i % 2 == 0}
        async with httpx.AsyncClient(base_url=http.base_url, verify=False) as client:
            try:
                await asyncio.wait_for(client.post("/v1/completions", json=body), 0.05)
            except TimeoutError:
                return

    await asyncio.gather(*(leave(i) for i in range(20)))
    while (stats := whole_engine.stats()).running or stats.waiting or stats.slots_leased:
        await asyncio.sleep(0.01)
    assert stats.slots_free + stats.slots_cached == stats.slots
    assert stats.generated_tokens < 20 * 450, "their outputs ended long before max_tokens"


async def test_the_context_s_exact_end_works(http: httpx.AsyncClient) -> None:
    full = await complete(http, prompt=[65] * 1023, max_tokens=1)
    assert full["usage"]["total_tokens"] == 1024
    answer = await http.post("/v1/completions", json={"model": "m", "prompt": [65] * 1024, "max_tokens": 1})
    assert answer.json()["error"]["code"] == "context_length_exceeded"


async def test_a_chat_is_answered_through_the_template(http: httpx.AsyncClient) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 7}
    answer = (await http.post("/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["message"]["content"] == "user\nh", "the prompt again, without its special token"


async def test_health_and_metrics_of_a_whole_engine(http: httpx.AsyncClient) -> None:
    await complete(http, prompt="x", max_tokens=3)
    assert set((await http.get("/health")).json()["processes"]) == {"front", "scheduler", "worker-0"}
    assert (await http.get("/server_info")).json()["parts"]["backend"] == "simulated"
    assert 'sgframe_outputs_total{finish_reason="length"} 1.0' in (await http.get("/metrics")).text


async def test_a_priority_that_the_policy_would_ignore_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/completions", json={"model": "m", "prompt": "abc", "max_tokens": 1, "priority": 3})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "priority"
    assert "policy 'lpm' knows no priorities" in answer.json()["error"]["message"]
    await complete(http, prompt="abc", max_tokens=1, priority=0)
