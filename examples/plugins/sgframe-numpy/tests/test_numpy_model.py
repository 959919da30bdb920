"""What the kit's short prompts do not reach, and what the pieces of the model compute."""

from __future__ import annotations

import numpy as np
import pytest
from sgframe_numpy import model
from sgframe_numpy.executor import NumpyExecutor

from sgframe.interfaces.backend import ExecutorSpec
from sgframe.interfaces.source import Checkpoint
from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver


def prompt_logprobs(checkpoint: Checkpoint, prompt: list[int]) -> list[float]:
    driver = Driver(NumpyExecutor(), ExecutorSpec(checkpoint, "auto", max_rows=2, max_step_tokens=128))
    row = driver.admit(prompt, TokenSampling(seed=0, prompt_logprobs=0))
    driver.prefill(row, 2)
    return [entry.logprob for entry in row.prompt_logprobs.values()]


def test_a_long_prompt_attends_block_by_block_as_at_once(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = [7 * token % 160 for token in range(100)]
    at_once = prompt_logprobs(checkpoint, prompt)
    monkeypatch.setattr(model, "QUERY_BLOCK", 3)
    assert prompt_logprobs(checkpoint, prompt) == pytest.approx(at_once, abs=1e-4)


def test_a_turn_keeps_lengths_and_turns_pairs_by_their_angle() -> None:
    angles = np.array([[[0.0, np.pi / 2]]], np.float32)
    turned = model._rotate(np.array([[[1, 2, 3, 4]]], np.float32), np.cos(angles), np.sin(angles))
    assert turned.ravel().tolist() == pytest.approx([1, -4, 3, 2])


def test_attention_weighs_values_by_what_is_seen() -> None:
    query = np.zeros((2, 2, 1), np.float32)  # two tokens, two heads that share one KV head
    keys, values = np.zeros((2, 1, 1), np.float32), np.array([[[1.0]], [[3.0]]], np.float32)
    seen = np.array([[True, False], [True, True]])
    found = model._attend(query, keys, values, seen)
    assert found.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert found.dtype == np.float32
