"""The server around the completions: clients that leave, keys, health, metrics, information, start and stop."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
import pytest

from sgframe.errors import ConfigError
from sgframe.statistics import SchedulerStats
from sgframe_openai.app import create_app
from sgframe_openai.server import HttpServer, bind

CHAT = ("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
TEXT = ("/v1/completions", {"model": "m", "prompt": ["a", "b"], "n": 2, "max_tokens": 500, "ignore_eos": True})
BOTH = pytest.mark.parametrize(("path", "body"), [CHAT, TEXT], ids=["chat", "text"])


def app_client(engine: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(create_app(engine)), base_url="http://test")


async def until(condition: Any) -> None:
    """Wait; the test's time limit is the bound."""
    while not condition():
        await asyncio.sleep(0.005)


# ------------------------------------------------------------------------------------------ clients that leave


@BOTH
async def test_a_client_that_leaves_a_stream_is_aborted(url: str, script: Any, path: str, body: Any) -> None:
    script.pause = 0.01
    async with httpx.AsyncClient() as http, http.stream("POST", url + path, json={**body, "stream": True}) as answer:
        await anext(answer.aiter_bytes())
    await until(lambda: not script.running)
    assert script.aborts == ["disconnect"] * len(script.requests)


@BOTH
async def test_a_client_that_leaves_before_its_answer_is_aborted(url: str, script: Any, path: str, body: Any) -> None:
    script.pause = 60
    async with httpx.AsyncClient() as http:
        asking = asyncio.create_task(http.post(url + path, json=body))
        await until(lambda: len(script.requests) == body.get("n", 1) * len(body.get("prompt", "x")))
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    await until(lambda: not script.running)
    assert script.aborts == ["disconnect"] * len(script.requests)


@BOTH
async def test_a_client_that_leaves_while_its_constraint_compiles_is_not_waited_for(
    url: str, engine: Any, script: Any, path: str, body: Any
) -> None:
    waiting: list[asyncio.Future[None]] = []

    def compile_for_ever(constraint: Any) -> asyncio.Future[None]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    engine.compiler.compile = compile_for_ever
    async with httpx.AsyncClient() as http:
        asking = asyncio.create_task(http.post(url + path, json={**body, "regex": "a+"}))
        await until(lambda: waiting)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    await until(waiting[0].cancelled)
    assert script.requests == []


async def test_an_answer_that_was_read_to_its_end_aborts_nothing(client: Any, script: Any) -> None:
    await client.post(CHAT[0], json={**CHAT[1], "stream": True})
    await client.post(CHAT[0], json=CHAT[1])
    assert script.aborts == []


# ------------------------------------------------------------------------------------------ a dead engine


@BOTH
async def test_a_dead_engine_is_a_503(client: Any, engine: Any, path: str, body: Any) -> None:
    engine.die("the scheduler was killed by signal 9")
    answer = await client.post(path, json=body)
    assert answer.status_code == 503
    message = "the engine is down: the scheduler was killed by signal 9"
    assert answer.json()["error"] == {"message": message, "type": "server_error", "param": None, "code": "engine_dead"}


@BOTH
async def test_open_requests_learn_of_the_death(url: str, engine: Any, script: Any, path: str, body: Any) -> None:
    script.pause = 60
    async with httpx.AsyncClient() as http:
        whole = asyncio.create_task(http.post(url + path, json=body))
        stream = asyncio.create_task(http.post(url + path, json={**body, "stream": True}))
        await until(lambda: len(script.requests) == 2 * body.get("n", 1) * len(body.get("prompt", "x")))
        engine.die("worker-0 was killed by signal 9")
        assert (await whole).status_code == 503
        event = json.loads((await stream).text.removeprefix("data: "))
        assert event["error"]["code"] == "engine_dead"


async def test_health_is_200_while_all_processes_beat(client: Any) -> None:
    answer = await client.get("/health")
    assert answer.status_code == 200
    beating = {"alive": True, "beat_age": 0.1, "phase": "serving", "phase_age": 0.0}
    assert answer.json() == {"status": "ok", "processes": {"scheduler": beating, "worker-0": beating}}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"alive": False}, "worker-0 is dead"),
        ({"beat_age": 5.1, "phase": "step"}, "worker-0 has been silent for 5.1 s in phase 'step'"),
    ],
)
async def test_health_names_the_process_at_fault(client: Any, engine: Any, state: Any, message: str) -> None:
    engine.processes["worker-0"] = replace(engine.processes["worker-0"], **state)
    answer = await client.get("/health")
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == message
    assert answer.json()["processes"]["scheduler"]["alive"]


async def test_too_many_open_requests_are_a_503(client: Any, engine: Any) -> None:
    engine.manager.drain()
    answer = await client.post(CHAT[0], json=CHAT[1])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")


# ------------------------------------------------------------------------------------------ the gate


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}])
async def test_a_key_is_asked_for(make_engine: Any, headers: Any) -> None:
    async with app_client(make_engine(api_key="right")) as client:
        answer = await client.get("/v1/models", headers=headers)
    assert answer.status_code == 401
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert "right" not in answer.text


async def test_the_right_key_opens(make_engine: Any) -> None:
    async with app_client(make_engine(api_key="right")) as client:
        assert (await client.get("/v1/models", headers={"Authorization": "Bearer right"})).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_probes_need_no_key(make_engine: Any, path: str) -> None:
    async with app_client(make_engine(api_key="right")) as client:
        assert (await client.get(path)).status_code == 200


async def test_without_a_key_any_is_welcome(client: Any) -> None:
    assert (await client.get("/v1/models", headers={"Authorization": "Bearer x"})).status_code == 200


async def test_a_request_id_is_kept(client: Any) -> None:
    assert (await client.get("/health", headers={"X-Request-Id": "abc-1"})).headers["x-request-id"] == "abc-1"


@pytest.mark.parametrize("headers", [{}, {"X-Request-Id": "x" * 129}, {"X-Request-Id": "a b"}])
async def test_a_missing_or_odd_request_id_is_replaced(client: Any, headers: Any) -> None:
    assert len((await client.get("/nowhere", headers=headers)).headers["x-request-id"]) == 32


# ------------------------------------------------------------------------------------------ information


async def test_models_are_listed_by_the_served_name(client: Any) -> None:
    model = (await client.get("/v1/models")).json()["data"][0]
    assert (model["id"], model["object"], model["root"], model["max_model_len"]) == ("m", "model", "some/folder", 4000)
    assert (await client.get("/v1/models/m")).json() == model


async def test_a_model_without_a_served_name_goes_by_its_own(make_engine: Any) -> None:
    async with app_client(make_engine(served_model_name=None)) as client:
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "folder"


async def test_server_info_tells_model_parts_and_ledger(client: Any) -> None:
    info = (await client.get("/server_info")).json()
    assert (info["model_path"], info["served_model_name"], info["context_length"]) == ("/nowhere", "m", 4000)
    assert set(info["parts"]) == {
        "cache",
        "policy",
        "grammar",
        "speculator",
        "transport",
        "source",
        "backend",
        "launcher",
    }
    assert info["ledger"] == [{"name": "weights", "bytes": 12, "origin": "measured", "note": ""}]
    assert info["version"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_flush_cache_tells_how_much_was_forgotten(client: Any, method: str) -> None:
    assert (await client.request(method, "/flush_cache")).json() == {"flushed_tokens": 7}


async def test_tokenize_a_prompt(client: Any) -> None:
    answer = await client.post("/tokenize", json={"prompt": "hé"})
    assert answer.json() == {"tokens": [256, 104, 0xC3, 0xA9], "count": 4, "max_model_len": 4000}
    answer = await client.post("/tokenize", json={"prompt": "h", "add_special_tokens": False})
    assert answer.json()["tokens"] == [104]


async def test_tokenize_a_conversation(client: Any, script: Any) -> None:
    tokens = (await client.post("/tokenize", json={"messages": CHAT[1]["messages"]})).json()["tokens"]
    await client.post(CHAT[0], json=CHAT[1])
    assert tokens == list(script.requests[0].tokens)


async def test_detokenize_is_the_way_back(client: Any) -> None:
    answer = await client.post("/detokenize", json={"model": "m", "tokens": [258, 104, 0xC3, 0xA9]})
    assert answer.json() == {"prompt": "<|im_start|>hé"}


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {}, 400, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": []}, 400, "prompt"),
        ("/tokenize", {"prompt": 5}, 400, "prompt"),
        ("/tokenize", {"prompt": "x", "model": "another"}, 404, "model"),
        ("/detokenize", {}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"tokens": [49152]}, 400, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, 400, "tokens[0]"),
    ],
)
async def test_bad_tokenizer_requests(client: Any, path: str, body: Any, status: int, param: str) -> None:
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


async def test_the_openapi_document_describes_the_bodies(client: Any) -> None:
    document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/ChatBody"}
    chat = document["components"]["schemas"]["ChatBody"]
    assert "messages" in chat["required"]
    assert {"response_format", "structured_outputs", "tools", "tool_choice"} <= chat["properties"].keys()
    assert chat["properties"]["tools"]["items"] == {"$ref": "#/components/schemas/ToolDefinition"}


async def test_metrics_show_the_scheduler_and_what_clients_saw(client: Any, engine: Any) -> None:
    engine.manager.stats = SchedulerStats(
        running=3,
        waiting=2,
        slots_free=100,
        slots_cached=20,
        slots_leased=5,
        cached_tokens=11,
        generated_tokens=13,
        forced_tokens=7,
    )
    await client.post(CHAT[0], json={**CHAT[1], "max_tokens": 4})
    await client.post(TEXT[0], json={**TEXT[1], "max_tokens": 4})
    lines = (await client.get("/metrics")).text.splitlines()
    for line in (
        'sgframe_kv_slots{state="free"} 100.0',
        'sgframe_kv_slots{state="cached"} 20.0',
        'sgframe_kv_slots{state="leased"} 5.0',
        "sgframe_requests_running 3.0",
        "sgframe_requests_waiting 2.0",
        "sgframe_cached_tokens_total 11.0",
        "sgframe_generated_tokens_total 13.0",
        "sgframe_forced_tokens_total 7.0",
        'sgframe_constraints_total{outcome="compiled"} 3.0',
        'sgframe_constraints_total{outcome="remembered"} 2.0',
        "sgframe_compile_seconds_total 0.5",
        "sgframe_constraints_pending 0.0",
        'sgframe_replicas{state="serving"} 3.0',
        'sgframe_replicas{state="lost"} 1.0',
        'sgframe_outputs_total{finish_reason="length"} 5.0',
        "sgframe_time_to_first_token_seconds_count 5.0",
        "sgframe_inter_token_latency_seconds_count 15.0",
        "sgframe_output_latency_seconds_count 5.0",
    ):
        assert line in lines


async def test_two_servers_in_a_process_count_apart(make_engine: Any) -> None:
    async with app_client(make_engine()) as first, app_client(make_engine()) as second:
        await first.post(CHAT[0], json=CHAT[1])
        assert "sgframe_output_latency_seconds_count 0.0" in (await second.get("/metrics")).text


# ------------------------------------------------------------------------------------------ start and stop


async def test_a_taken_port_is_named(make_engine: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"port {port} on 127.0.0.1 is in use .* choose another with --port"):
            HttpServer(make_engine(port=port))


async def test_a_port_that_was_taken_meanwhile_is_named(make_engine: Any) -> None:
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ConfigError, match=f"port {port} .* is in use"):
        await HttpServer(make_engine(), listener).start()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b"])
async def test_an_unknown_host_is_named(host: str) -> None:
    with pytest.raises(ConfigError, match=f"host '{host}' cannot be resolved: .*; choose another with --host"):
        bind(host, 0)


async def test_a_stop_lets_open_answers_finish(engine: Any, script: Any) -> None:
    script.pause = 0.03
    server = HttpServer(engine)
    host, port = await server.start()
    async with httpx.AsyncClient() as http:
        asking = asyncio.create_task(http.post(f"http://{host}:{port}{CHAT[0]}", json=CHAT[1]))
        await until(lambda: script.running)
        await server.stop(5)
        assert (await asking).json()["choices"][0]["message"]["content"] == "Hello world"
        with pytest.raises(httpx.ConnectError):
            await http.get(f"http://{host}:{port}/health")


async def test_a_stop_cuts_what_outlasts_the_grace(engine: Any, script: Any) -> None:
    script.pause = 60
    server = HttpServer(engine)
    host, port = await server.start()
    async with httpx.AsyncClient() as http:
        asking = asyncio.create_task(http.post(f"http://{host}:{port}{CHAT[0]}", json=CHAT[1]))
        await until(lambda: script.running)
        await server.stop(1)
        await until(lambda: script.aborts)
        assert (await asking).status_code == 500
