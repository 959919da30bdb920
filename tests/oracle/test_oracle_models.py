"""The whole engine against transformers, in float32: greedy text token for token, log-probabilities to 1e-3.

The real models, cold, warm, with the prompt computed in 1, 2 and 7 pieces, and resumed after retractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import pytest
import torch

from sgframe import Engine, SamplingParams
from sgframe.front.outputs import Result

LENGTH = 48
POOL = 128
PROMPTS = {
    "smollm2-135m": [
        "The capital of France is",
        "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
        "Once upon a time, in a village by the sea, there lived an old fisherman who had three daughters. " * 3,
        "日本の首都は",
    ],
    "gemma3-270m": [
        "The capital of France is",
        "A list of the planets, in order of their distance from the sun:",
        "It was the best of times, it was the worst of times. " * 60,  # past the sliding window of 512
    ],
}
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Reference:
    """What transformers says to each prompt."""

    prompts: list[list[int]]
    outputs: list[list[int]]
    prompt_logprobs: list[list[float]]


@pytest.fixture(scope="module", params=["smollm2-135m", pytest.param("gemma3-270m", marks=pytest.mark.slow)])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(model: str) -> Reference:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with start(model) as engine:
        folder = Path(engine._engine.checkpoint.folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts, outputs, logprobs = [], [], []
    for text in PROMPTS[model]:
        ids = tokenizer(text, return_tensors="pt").input_ids
        with torch.inference_mode():
            made = network.generate(ids, max_new_tokens=LENGTH, do_sample=False)
            scores = network(ids).logits[0].log_softmax(-1)
        prompts.append(ids[0].tolist())
        outputs.append(made[0, ids.shape[1] :].tolist())
        logprobs.append(scores[:-1].gather(1, ids[0, 1:, None])[:, 0].tolist())
    return Reference(prompts, outputs, logprobs)


def start(model: str, **settings: object) -> Engine:
    fixed = {"transport": "inproc", "dtype": "float32", "plugin": {"cpu": {"threads": 1}}, "kv_slots": 4096}
    return Engine(model=model, **(fixed | settings))


def greedy(engine: Engine, prompts: list[list[int]]) -> list[Result]:
    return engine.generate(prompts, SamplingParams(max_tokens=LENGTH, temperature=0))


def check(results: list[Result], reference: Reference) -> None:
    assert [list(result.outputs[0].tokens) for result in results] == reference.outputs


def test_cold_and_warm(model: str, reference: Reference) -> None:
    with start(model) as engine:
        check(greedy(engine, reference.prompts), reference)
        again = greedy(engine, reference.prompts)
        check(again, reference)
        assert [result.outputs[0].usage.cached_tokens for result in again] == [len(p) - 1 for p in reference.prompts]


def test_text_goes_through_the_same_tokens(model: str, reference: Reference) -> None:
    with start(model) as engine:
        results = [engine.generate(text, SamplingParams(max_tokens=1)) for text in PROMPTS[model]]
    assert [list(result.prompt_tokens) for result in results] == reference.prompts


@pytest.mark.parametrize("pieces", [2, 7])
def test_in_pieces(model: str, reference: Reference, pieces: int) -> None:
    longest = max(map(len, reference.prompts))
    with start(model, max_step_tokens=max(4, ceil(longest / pieces)), max_running=4) as engine:
        check(greedy(engine, reference.prompts), reference)


def test_after_retractions(model: str, reference: Reference) -> None:
    short = [i for i, prompt in enumerate(reference.prompts) if len(prompt) + LENGTH < POOL]
    with start(model, kv_slots=POOL, max_running=8) as engine:
        results = greedy(engine, [reference.prompts[i] for i in short] * 4)
        engine.flush_cache()  # by then the last report is in
        assert engine.stats().retractions > 0
    assert [list(result.outputs[0].tokens) for result in results] == [reference.outputs[i] for i in short] * 4


def test_prompt_logprobs(model: str, reference: Reference) -> None:
    params = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=0)
    with start(model) as engine:
        results = engine.generate(reference.prompts, params)
    for result, expected in zip(results, reference.prompt_logprobs, strict=True):
        entries = result.outputs[0].prompt_logprobs
        assert entries is not None
        assert [entry.logprob for entry in entries] == pytest.approx(expected, abs=1e-3)
