"""The main job: SmolLM2 on processor cores behind HTTP, asked by the openai package."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import psutil
import pytest
from servers import Server, served

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
MODEL = "smollm2-135m"
pytestmark = pytest.mark.timeout(900)  # the first use fetches and converts the model


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served(
        "--model", MODEL, "--dtype", "float32", "--set", "cpu.threads=1", "--kv-memory", "512MiB", start_timeout=800
    ) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=120, max_retries=0)


def ask(client: openai.OpenAI, text: str, **options: object) -> str:
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": text}], temperature=0, max_tokens=24, **options
    )
    return answer.choices[0].message.content or ""


def test_it_knows_the_capital_of_france(client: openai.OpenAI) -> None:
    assert "Paris" in ask(client, "What is the capital of France?")


def test_the_stream_says_the_same(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL, messages=FRANCE, temperature=0, max_tokens=24, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ask(client, "What is the capital of France?")
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_a_prompt_seen_before_is_not_computed_again(client: openai.OpenAI) -> None:
    prompt = "The quick brown fox jumps over the lazy dog. " * 10
    usages = [
        client.completions.create(model=MODEL, prompt=prompt, max_tokens=1, temperature=0).usage for _ in range(2)
    ]
    assert all(usage and usage.prompt_tokens_details for usage in usages)
    cold, warm = usages
    assert warm.prompt_tokens_details.cached_tokens == cold.prompt_tokens - 1


def test_sixteen_at_once_answer_as_one_alone(client: openai.OpenAI) -> None:
    questions = [f"Say the number {number} in words." for number in range(16)]
    alone = [ask(client, question) for question in questions[:2]]
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda question: ask(client, question), questions))
    assert all(together)
    assert together[:2] == alone


def test_the_same_seed_draws_the_same_text(client: openai.OpenAI) -> None:
    def draw(seed: int) -> list[str | None]:
        answer = client.chat.completions.create(
            model=MODEL, messages=FRANCE, temperature=1.2, max_tokens=16, seed=seed, n=4
        )
        return [choice.message.content for choice in answer.choices]

    first = draw(7)
    assert draw(7) == first
    assert len(set(first)) > 1
    assert draw(8) != first


def test_logprobs_of_an_echoed_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="Paris is the capital of France", echo=True, max_tokens=0, logprobs=1
    )
    logprobs = answer.choices[0].logprobs
    assert answer.choices[0].text == "Paris is the capital of France"
    assert logprobs is not None
    assert "".join(logprobs.tokens or []) == answer.choices[0].text
    assert logprobs.token_logprobs is not None
    assert logprobs.token_logprobs[0] is None
    assert all(value < 0 for value in logprobs.token_logprobs[1:] if value is not None)


def test_the_scheduler_has_no_torch_in_its_memory(server: Server) -> None:
    children = server.children()
    assert "libtorch" in Path(f"/proc/{children['worker-0'].pid}/maps").read_text()
    for pid in (children["scheduler"].pid, server.process.pid):
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_memory_beyond_weights_and_kv_is_under_1_gib(server: Server) -> None:
    processes = [psutil.Process(server.process.pid), *server.children().values()]
    total = sum(process.memory_full_info().pss for process in processes)
    ledger = {line["name"]: line["bytes"] for line in server.client().get("/server_info").json()["ledger"]}
    assert total - ledger["weights"] - ledger["KV slots"] < 2**30


def test_a_good_request_after_bad_ones(server: Server, client: openai.OpenAI) -> None:
    with server.client() as http:
        for body in (b"{x", b"\xff\xfe", b"[" * 100_000, b'{"model": "m", "prompt": NaN}'):
            answer = http.post("/v1/completions", content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 400
    with pytest.raises(openai.BadRequestError, match="context"):
        client.completions.create(model=MODEL, prompt=[1] * 9000, max_tokens=1)
    assert "Paris" in ask(client, "What is the capital of France?")
