"""Models on the double say what transformers says of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import npu_executors
import pytest
import torch
import transformers

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver

PROMPT = [(7 * position + position**2) % 160 for position in range(40)]
SCORED = TokenSampling(seed=0, temperature=0.0, prompt_logprobs=0)

Checkpoints = Callable[[str], Checkpoint]
Oracles = Callable[[str], Any]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    return cache(lambda kind: npu_executors.save_model(kind, tmp_path_factory.mktemp(kind)))


@pytest.fixture(scope="module")
def oracle(checkpoint: Checkpoints) -> Oracles:
    """``oracle(kind)``: the same model in transformers' own hands, float32, eager attention."""
    return cache(
        lambda kind: transformers.AutoModelForCausalLM.from_pretrained(
            checkpoint(kind).folder, attn_implementation="eager", dtype=torch.float32
        ).requires_grad_(False)
    )


def drive(checkpoint: Checkpoint, dtype: str) -> Driver:
    return Driver(npu_executors.executor(), ExecutorSpec(checkpoint, dtype, 4, 128, context_length=128, kv_slots=512))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 0.03), ("bfloat16", 0.24), ("float32", 2e-5)])
@pytest.mark.parametrize("kind", npu_executors.CONFIGS)
def test_a_prompt_cut_in_pieces_has_the_logprobs_of_transformers(
    checkpoint: Checkpoints, oracle: Oracles, kind: str, dtype: str, tolerance: float
) -> None:
    driver = drive(checkpoint(kind), dtype)
    row = driver.admit(PROMPT, SCORED)
    driver.prefill(row, pieces=3)
    logprobs = oracle(kind)(torch.tensor([PROMPT])).logits[0, :-1].log_softmax(-1)
    expected = logprobs.gather(1, torch.tensor(PROMPT[1:])[:, None])[:, 0]
    found = torch.tensor([row.prompt_logprobs[place].logprob for place in range(1, len(PROMPT))])
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", npu_executors.CONFIGS)
def test_greedy_text_in_float32_is_that_of_transformers(checkpoint: Checkpoints, oracle: Oracles, kind: str) -> None:
    tokens = torch.tensor([PROMPT])
    for _ in range(8):
        following = oracle(kind)(tokens).logits[0, -1].argmax()
        tokens = torch.cat((tokens, following.view(1, 1)), dim=1)
    assert drive(checkpoint(kind), "float32").generate(PROMPT, 8) == tokens[0, len(PROMPT) :].tolist()
