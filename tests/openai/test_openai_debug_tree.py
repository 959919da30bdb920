"""What clients are told of the prefix cache: the report in ``usage``, and /debug/tree."""

from __future__ import annotations

import json
from itertools import zip_longest
from typing import Any

import httpx
import openai
import pytest

from sgframe.interfaces.cache import Node
from sgframe.messages import CacheDescription, CachedNode, CacheReport, Namespace, ints
from sgframe.statistics import SchedulerStats, ShadowStats
from sgframe_openai.app import create_app
from sgframe_openai.cached_tree import PREVIEW, cached_tree

CHAT = ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
TEXT = ("/v1/completions", {"model": "m", "prompt": "hi"})
BOTH = pytest.mark.parametrize(("path", "body"), [CHAT, TEXT], ids=["chat", "text"])
EVICTED = CacheReport(2, "evicted", "lru", 12.5)


def node(id: int, parent: int | None, text: str, *, hits: int = 0, locks: int = 0, namespace: Namespace = ()) -> Node:
    return Node(id, parent, ints([*text.encode()]).tobytes(), locks, hits, 1.5, namespace)


def described(*texts: str, salts: tuple[Namespace, ...] = ()) -> CacheDescription:
    """Nodes with these texts, told whole, in these namespaces."""
    nodes = [
        CachedNode(id, -1, len(text), ints([*text.encode()[:PREVIEW]]), 0, 0, 0, 1.5, namespace)
        for id, (text, namespace) in enumerate(zip_longest(texts, salts, fillvalue=()))
    ]
    return CacheDescription(len(nodes), 0, nodes)


TREE = [
    node(1, None, "cold", namespace=(("salt", "hush"),)),
    node(2, None, "shared ", hits=3, locks=1),
    node(3, 2, "a", hits=1),
    node(4, 2, "the longer one", hits=2),
]
"""Computations saved: 3 × 7 + 1 × 1 + 2 × 14 = 50 by node 2 and those below it, 28 by node 4, 1 by node 3, 0 by node 1."""


# ------------------------------------------------------------------------------------------ usage


@BOTH
@pytest.mark.parametrize(
    ("report", "told"),
    [
        (EVICTED, {"matched": 2, "reason": "evicted", "evicted_by": "lru", "evicted_ago": 12.5}),
        (CacheReport(0, "never_seen"), {"matched": 0, "reason": "never_seen"}),
        (CacheReport(1, "namespace"), {"matched": 1, "reason": "never_seen"}),
    ],
    ids=["evicted", "never_seen", "namespace"],
)
async def test_usage_says_why_no_more_was_cached(
    client: Any, script: Any, path: str, body: Any, report: CacheReport, told: Any
) -> None:
    script.reports = [report]
    assert (await client.post(path, json=body)).json()["usage"]["sgframe"] == {"cache": told}


@BOTH
async def test_a_stream_s_last_chunk_says_it(client: Any, script: Any, path: str, body: Any) -> None:
    script.reports = [EVICTED]
    answer = await client.post(path, json={**body, "stream": True, "stream_options": {"include_usage": True}})
    *_, last, done = answer.text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    assert json.loads(last.removeprefix("data: "))["usage"]["sgframe"]["cache"]["reason"] == "evicted"


async def test_of_several_choices_the_first_is_told_of(client: Any, script: Any) -> None:
    script.reports = [EVICTED, CacheReport(5, "page_floor")]
    usage = (await client.post(TEXT[0], json={**TEXT[1], "n": 2})).json()["usage"]
    assert usage["sgframe"]["cache"]["reason"] == "evicted"


async def test_openai_s_client_passes_it_on(url: str, script: Any) -> None:
    script.reports = [EVICTED]
    sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="EMPTY", max_retries=0)
    answer = await sdk.completions.create(model="m", prompt="hi")
    assert answer.usage and answer.usage.model_extra
    assert answer.usage.model_extra["sgframe"]["cache"]["matched"] == 2


# ------------------------------------------------------------------------------------------ stats


async def test_what_is_cached_is_told_apart_from_what_is_leased(client: Any, engine: Any) -> None:
    engine.manager.stats = SchedulerStats(slots=125, slots_free=100, slots_cached=20, slots_leased=5)
    stats = (await client.get("/server_info")).json()["stats"]
    assert [stats[f"slots{state}"] for state in ("", "_free", "_cached", "_leased")] == [125, 100, 20, 5]


SHADOW = ShadowStats("fcfs", "radix(eviction=slru)", 200, 150, 100, 0, 64)


async def test_a_shadow_is_told_of_beside_the_service(client: Any, engine: Any) -> None:
    engine.manager.stats = SchedulerStats(shadow=SHADOW)
    assert (await client.get("/server_info")).json()["stats"]["shadow"] == {
        "policy": "fcfs",
        "cache": "radix(eviction=slru)",
        "prompt_tokens": 200,
        "cached_tokens": 150,
        "service_cached_tokens": 100,
        "overtaken": 0,
        "service_overtaken": 64,
    }
    metrics = (await client.get("/metrics")).text
    labels = '{cache="radix(eviction=slru)",policy="fcfs"}'
    assert f"sgframe_shadow_prompt_tokens_total{labels} 200.0" in metrics
    assert f"sgframe_shadow_cached_tokens_total{labels} 150.0" in metrics
    assert f"sgframe_shadow_service_cached_tokens_total{labels} 100.0" in metrics
    assert f"sgframe_shadow_overtaken_tokens{labels} 0.0" in metrics
    assert f"sgframe_shadow_service_overtaken_tokens{labels} 64.0" in metrics


async def test_without_a_shadow_there_are_no_metrics_of_one(client: Any) -> None:
    assert (await client.get("/server_info")).json()["stats"]["shadow"] is None
    assert "shadow" not in (await client.get("/metrics")).text


# ------------------------------------------------------------------------------------------ the tree


@pytest.fixture
async def shown(make_engine: Any, request: pytest.FixtureRequest) -> Any:
    """A client of a server that shows lengths, or what the test's parameter says, of TREE."""
    engine = make_engine(debug_tree=getattr(request, "param", "lengths"))
    engine.script.nodes = TREE
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield http


async def test_the_tree_is_not_shown_unless_it_was_allowed(client: Any) -> None:
    answer = await client.get("/debug/tree")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "debug_tree_off")
    assert "start it with --debug-tree lengths" in answer.json()["error"]["message"]


async def test_lengths_tell_no_text(shown: Any) -> None:
    answer = (await shown.get("/debug/tree")).json()
    assert [answer.pop(name) for name in ("cache", "total_nodes", "total_tokens", "truncated")] == [
        "none",
        4,
        26,
        False,
    ]
    assert answer["nodes"][:2] == [
        {"id": 2, "tokens": 7, "reused": 50, "locks": 1, "hits": 3, "age": 1.5},
        {"id": 4, "parent": 2, "tokens": 14, "reused": 28, "locks": 0, "hits": 2, "age": 1.5},
    ]


async def test_the_hottest_come_first_and_parents_before_children(shown: Any) -> None:
    nodes = (await shown.get("/debug/tree")).json()["nodes"]
    assert [(node["id"], node["reused"]) for node in nodes] == [(2, 50), (4, 28), (3, 1), (1, 0)]


async def test_a_limit_cuts_the_coldest_off_and_says_so(shown: Any) -> None:
    answer = (await shown.get("/debug/tree", params={"limit": 2})).json()
    assert [node["id"] for node in answer["nodes"]] == [2, 4]
    assert (answer["truncated"], answer["total_nodes"], answer["total_tokens"]) == (True, 4, 26)


async def test_a_salt_is_told_as_a_digest(shown: Any) -> None:
    answer = await shown.get("/debug/tree")
    salted = answer.json()["nodes"][-1]["namespace"]
    assert list(salted) == ["salt"]
    assert len(salted["salt"]) == 8
    assert "hush" not in answer.text


@pytest.mark.parametrize("shown", ["text"], indirect=True)
async def test_text_is_told_where_it_is_allowed(shown: Any) -> None:
    nodes = (await shown.get("/debug/tree")).json()["nodes"]
    assert [node["text"] for node in nodes] == ["shared ", "the longer one", "a", "cold"]


def test_text_is_at_most_80_characters() -> None:
    description = described("🙂" * 80, "🙂" * 81, "x" * 10_000)
    told = cached_tree("radix", description, lambda tokens: bytes([*tokens]).decode()).nodes
    assert [node.text for node in told] == ["🙂" * 80, "🙂" * 79 + "…", "x" * 79 + "…"]


def test_equal_salts_have_equal_digests_and_no_salt_is_not_the_empty_one() -> None:
    salts: tuple[Namespace, ...] = ((("salt", "a"),), (("salt", "a"),), (("salt", ""),), ())
    tree = cached_tree("radix", described("x", "x", "x", "x", salts=salts), None)
    first, second, empty, none = [node.namespace for node in tree.nodes]
    assert first == second != empty != none
    assert none == {}


@pytest.mark.parametrize(
    ("query", "param", "words"),
    [
        ({"limit": 0}, "limit", "should be greater than or equal to 1, found '0'"),
        ({"limit": 10_001}, "limit", "should be less than or equal to 10000, found '10001'"),
        ({"limit": "many"}, "limit", "should be a valid integer"),
        ({"limt": 5}, "limt", "Extra inputs are not permitted"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused(shown: Any, query: Any, param: str, words: str) -> None:
    answer = await shown.get("/debug/tree", params=query)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert words in error["message"]


async def test_the_tree_needs_the_key(make_engine: Any) -> None:
    transport = httpx.ASGITransport(create_app(make_engine(debug_tree="text", api_key="right")))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        assert (await http.get("/debug/tree")).status_code == 401
        assert (await http.get("/debug/tree", headers={"Authorization": "Bearer right"})).status_code == 200


async def test_a_dead_engine_has_no_tree(make_engine: Any) -> None:
    engine = make_engine(debug_tree="lengths")
    engine.die("the scheduler was killed")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(engine)), base_url="http://test") as http:
        assert (await http.get("/debug/tree")).json()["error"]["code"] == "engine_dead"


async def test_the_openapi_document_describes_the_tree(client: Any) -> None:
    document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/debug/tree"]["get"]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/CachedTree"
    }
    assert "422" not in operation["responses"]
    (limit,) = operation["parameters"]
    assert (limit["name"], limit["schema"]["default"], limit["schema"]["maximum"]) == ("limit", 1000, 10_000)
    assert "hits" in document["components"]["schemas"]["TreeNode"]["properties"]
