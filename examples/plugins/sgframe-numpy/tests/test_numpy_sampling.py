"""What is drawn from given logits, and what is said of them. The right values are written out."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sgframe_numpy.rows import Row
from sgframe_numpy.sampling import INVALID, choose, logprobs_of

from sgframe.messages import ints
from sgframe.sampling import TokenSampling

HALF, QUARTER, EIGHTH = (math.log(2) * power for power in (-1, -2, -3))
LOGITS = [QUARTER, HALF, EIGHTH, EIGHTH]


def row(*, seed: int = 0, tokens: tuple[int, ...] = (), prompt_len: int = 0, **sampling: Any) -> Row:
    parameters = TokenSampling(seed, **{"temperature": 0.0, **sampling})
    return Row(0, ints(tokens), prompt_len, np.empty(0, np.int32), parameters, 1, None)


def chosen(logits: list[float], allowed: list[bool] | None = None, **of_row: Any) -> int:
    mask = None if allowed is None else np.array(allowed)
    return choose(np.array(logits, np.float32), row(**of_row), mask)


def drawn(**sampling: Any) -> dict[int, float]:
    """How often each token comes, over 2,000 seeds."""
    counts = Counter(chosen(LOGITS, seed=seed, **{"temperature": 1.0, **sampling}) for seed in range(2000))
    return {token: count / 2000 for token, count in sorted(counts.items())}


def test_greedy_takes_the_largest_and_the_lower_of_equals() -> None:
    assert chosen([1.0, 3.0, 3.0, 2.0]) == 1


@pytest.mark.parametrize("logits", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, -math.inf]])
def test_logits_that_are_not_finite_give_no_token(logits: list[float]) -> None:
    assert chosen(logits) == INVALID


def test_a_mask_leaves_what_it_allows_and_an_empty_one_nothing() -> None:
    assert chosen([1.0, 3.0, 2.0], [True, False, True]) == 2
    assert chosen([1.0, 3.0, 2.0], [False, False, False], temperature=1.0) == INVALID


def test_a_bias_is_added() -> None:
    assert chosen([1.0, 3.0], logit_bias={0: 2.5}) == 0


def test_frequency_and_presence_count_the_output_alone() -> None:
    written = {"tokens": (1, 1, 0, 0), "prompt_len": 2}
    assert chosen([3.0, 2.5], **written, frequency_penalty=0.2) == 0  # 2.6 beside 2.5
    assert chosen([3.0, 2.5], **written, frequency_penalty=0.3) == 1  # 2.4 beside 2.5
    assert chosen([3.0, 2.5], **written, presence_penalty=0.6) == 1


def test_repetition_divides_what_is_positive_and_multiplies_what_is_not_in_prompt_and_output() -> None:
    assert chosen([3.0, 2.0], tokens=(0,), prompt_len=1, repetition_penalty=2.0) == 1
    assert chosen([-2.0, -3.0], tokens=(0,), prompt_len=0, repetition_penalty=2.0) == 1


def test_draws_are_as_likely_as_the_model_says() -> None:
    assert drawn() == pytest.approx({0: 1 / 4, 1: 1 / 2, 2: 1 / 8, 3: 1 / 8}, abs=0.04)


def test_temperature_sharpens() -> None:
    assert drawn(temperature=0.5) == pytest.approx({0: 4 / 22, 1: 16 / 22, 2: 1 / 22, 3: 1 / 22}, abs=0.04)


@pytest.mark.parametrize("filters", [{"top_k": 2}, {"top_p": 0.7}, {"min_p": 0.4}, {"top_k": 3, "top_p": 0.8}], ids=str)
def test_filters_keep_the_likeliest(filters: dict[str, float]) -> None:
    assert drawn(**filters) == pytest.approx({0: 1 / 3, 1: 2 / 3}, abs=0.04)


def test_of_equals_a_filter_keeps_the_lower() -> None:
    assert set(drawn(top_k=3)) == {0, 1, 2}


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    def draws(seed: int, first: int) -> list[int]:
        return [chosen([0.0] * 50, seed=seed, tokens=(first,) * n, temperature=1.0) for n in range(9)]

    assert draws(-5, 1) == draws(-5, 2) != draws(6, 1)
    assert len(set(draws(-5, 1))) > 4


def test_logprobs_are_the_models_own_best_first() -> None:
    found = logprobs_of(np.array(LOGITS, np.float32) + 7, 2, 3)
    assert (found.token, list(found.top_ids)) == (2, [1, 0, 2])
    assert found.logprob == pytest.approx(EIGHTH)
    assert found.top_logprobs == pytest.approx([HALF, QUARTER, EIGHTH])
