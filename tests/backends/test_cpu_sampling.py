"""The compiled choice of tokens against its definition, on rows as a model gives them: many tokens, bfloat16, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from plain_ops import PlainOps

from sgframe_cpu.sampling import Sampling
from sgframe_cpu.team import Team

VOCAB = 6400
NAN, INF = float("nan"), float("inf")

compiled, plain = Sampling(Team(2)), PlainOps()


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request: pytest.FixtureRequest) -> Any:
    return request.param


def model_logits(rows: int, dtype: torch.dtype, vocab: int = VOCAB, seed: int = 0) -> torch.Tensor:
    """Most tokens are unlikely, a few stand out; in bfloat16 many are equal."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.5 * torch.randn(rows, vocab, generator=generator)
    logits[:, :20] += torch.linspace(9, 2, 20)
    return logits[:, torch.randperm(vocab, generator=generator)].to(dtype)


def random_words(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    """A third of the words allows all tokens, a third none, a third some."""
    rng = np.random.default_rng(seed)
    words = rng.integers(-(2**31), 2**31, (rows, -(-vocab // 32)))
    return torch.from_numpy(np.choose(rng.integers(0, 3, words.shape), (-1, 0, words)).astype(np.int32))


# ------------------------------------------------------------------------------------------------- the largest


@pytest.mark.parametrize("vocab", [VOCAB, 1, 31, 33, 6401])
def test_the_largest(dtype: torch.dtype, vocab: int) -> None:
    logits = model_logits(40, dtype, vocab + 20)[:, :vocab]  # as after an output layer that is padded
    assert torch.equal(compiled.choose(logits, None, None), plain.choose(logits, None, None))


def test_the_largest_that_is_allowed(dtype: torch.dtype) -> None:
    for vocab in (VOCAB, 6401):
        logits, words = model_logits(40, dtype, vocab), random_words(40, vocab)
        assert torch.equal(compiled.choose(logits, words, None), plain.choose(logits, words, None))


def test_positive_and_negative_zero_are_equal(dtype: torch.dtype) -> None:
    logits = torch.tensor([[-1.0, -0.0, 0.0], [-1.0, 0.0, -0.0]], dtype=dtype)
    assert compiled.choose(logits, None, None).tolist() == [1, 1]


@pytest.mark.parametrize("bad", [NAN, -NAN, INF])
def test_one_bad_logit_anywhere_invalidates_its_row_alone_even_if_it_is_not_allowed(
    dtype: torch.dtype, bad: float
) -> None:
    logits = model_logits(100, dtype, 100)
    logits[torch.arange(1, 100, 2), torch.arange(1, 100, 2)] = bad
    words = torch.full((100, 4), -1, dtype=torch.int32)
    words[torch.arange(100), torch.arange(100) // 32] = 0
    for masks in (None, words):
        chosen = compiled.choose(logits, masks, None)
        assert (chosen[1::2] == -1).all()
        assert torch.equal(chosen[::2], plain.choose(logits[::2], None if masks is None else masks[::2], None))


def test_no_rows() -> None:
    assert compiled.choose(torch.empty(0, 64), None, None).tolist() == []


# ------------------------------------------------------------------------------------------------------- draws

FILTERS: list[dict[str, float]] = [
    {},
    {"temperature": 0.3},
    {"temperature": 5.0},
    {"top_k": 1},
    {"top_k": 50, "temperature": 0.8},
    {"top_k": 1000},
    {"top_p": 0.95},
    {"top_p": 0.5, "temperature": 1.5},
    {"top_p": 0.99, "temperature": 8.0},
    {"top_k": 40, "top_p": 0.9},
    {"top_k": 3000, "top_p": 0.9, "min_p": 0.01, "temperature": 2.0},
    {"min_p": 0.05},
    {"min_p": 0.001, "top_p": 0.9},
]


def left(logits: np.ndarray, top_k: int, top_p: float, min_p: float, temperature: float) -> np.ndarray:
    """Weights [vocab] of what the filters leave, by one stable sort."""
    weights = np.exp((logits - logits.max()) / temperature)
    order = np.argsort(-weights, kind="stable")[: top_k or None]
    mass = weights[order].cumsum()
    order = order[np.concatenate([[True], mass[:-1] < top_p * (mass[-1] if top_k else weights.sum())])]
    order = order[weights[order] >= min_p * (1 - 1e-6)]
    kept = np.zeros_like(weights)
    kept[order] = weights[order]
    return kept


def table(
    uniforms: Sequence[float], top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, temperature: float = 1.0
) -> Any:
    return np.array([(temperature, top_k, top_p, min_p, uniform) for uniform in uniforms])


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_number_in_the_middle_of_a_token_s_share_draws_it(
    filters: dict[str, float], masked: bool, dtype: torch.dtype
) -> None:
    for seed in range(3):
        logits = model_logits(1, dtype, VOCAB - seed, seed)
        words = random_words(1, VOCAB - seed, seed) if masked else None
        work = logits.float()
        if words is not None:
            plain.apply_mask(work, words)
        parameters: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, **filters}
        weights = left(work[0].double().numpy(), **parameters)
        ends = weights.cumsum() / weights.sum()
        tokens = np.flatnonzero(weights > 1e-5 * weights.sum())[::7]
        middles = ends[tokens] - weights[tokens] / weights.sum() / 2
        words = None if words is None else words.repeat(len(tokens), 1)
        drawn = compiled.choose(logits.repeat(len(tokens), 1), words, table(middles, **parameters))
        assert drawn.tolist() == tokens.tolist()


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_the_ends_of_the_unit_interval_draw_the_first_and_the_last_token_that_is_left(filters: dict[str, Any]) -> None:
    logits = model_logits(1, torch.float32, 320)
    logits[0, [0, 1, 2, -1, -2]] = -INF
    kept = np.flatnonzero(
        left(logits[0].double().numpy(), **{"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, **filters})
    )
    drawn = compiled.choose(logits.repeat(2, 1), None, table([0.0, 1 - 2**-53], **filters))
    assert drawn.tolist() == [kept[0], kept[-1]]


def test_among_equals_top_k_and_top_p_keep_the_lower_ids() -> None:
    flat = torch.zeros(1, 5000).repeat(2, 1)
    assert compiled.choose(flat, None, table([0.0, 1 - 2**-53], top_k=3000)).tolist() == [0, 2999]
    assert compiled.choose(flat, None, table([0.0, 1 - 2**-53], top_p=0.25)).tolist() == [0, 1249]


def test_rows_that_take_the_largest_stand_among_rows_that_draw(dtype: torch.dtype) -> None:
    logits, draws = model_logits(4, dtype), table([0.5] * 4, top_p=0.9)
    draws[::2, 0] = 0
    chosen = compiled.choose(logits, None, draws)
    assert chosen[::2].tolist() == logits[::2].argmax(dim=-1).tolist()
    assert chosen[1::2].tolist() == compiled.choose(logits[1::2], None, draws[1::2].copy()).tolist()


def test_a_row_draws_the_same_alone_and_among_others_on_several_threads(dtype: torch.dtype) -> None:
    logits, words = model_logits(50, dtype), random_words(50, VOCAB)
    draws = table(np.random.default_rng(0).random(50).tolist(), top_p=0.95, temperature=1.3)
    alone = [compiled.choose(logits[i : i + 1], words[i : i + 1], draws[i : i + 1]).item() for i in range(50)]
    assert compiled.choose(logits, words, draws).tolist() == alone


def test_a_mask_that_allows_nothing_invalidates_a_draw() -> None:
    words = torch.tensor([[0, 0], [0, 4]], dtype=torch.int32)
    assert compiled.choose(torch.zeros(2, 64), words, table([0.5, 0.5], top_k=3)).tolist() == [-1, 34]


# ---------------------------------------------------------------------------------------------------- logprobs


@pytest.mark.parametrize("vocab", [VOCAB, 20, 6401])
@pytest.mark.parametrize("k", [0, 1, 5, 20])
def test_ranks_agree(k: int, vocab: int, dtype: torch.dtype) -> None:
    logits, tokens = model_logits(40, dtype, vocab + 20)[:, :vocab], torch.arange(40) % vocab
    ours, theirs = compiled.rank(logits, tokens, k), plain.rank(logits, tokens, k)
    assert torch.equal(ours.top_ids, theirs.top_ids)
    torch.testing.assert_close(ours.logprobs, theirs.logprobs, atol=2e-5, rtol=0)
    torch.testing.assert_close(ours.top_logprobs, theirs.top_logprobs, atol=2e-5, rtol=0)


def test_impossible_tokens_are_ranked_last_by_id() -> None:
    logits = torch.tensor([[-INF, 1.0, -INF, 1.0]])
    ranked = compiled.rank(logits, torch.tensor([2]), 4)
    assert ranked.top_ids.tolist() == [[1, 3, 0, 2]]
    assert ranked.logprobs.tolist() == [-INF]
    assert ranked.top_logprobs[0].tolist() == pytest.approx([np.log(0.5), np.log(0.5), -INF, -INF])


def test_the_logprobs_of_a_row_that_is_not_finite_are_nan() -> None:
    logits = torch.tensor([[NAN, 1.0, 2.0], [0.0, INF, 0.0]])
    assert compiled.rank(logits, torch.tensor([1, 0]), 1).logprobs.isnan().all()
