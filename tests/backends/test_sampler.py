"""The sampler's semantics, each rule with its figures written out: by plain torch and by the compiled kernels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from plain_ops import PlainOps

from sgframe.messages import Ints, Logprobs, ints
from sgframe.sampling import TokenSampling
from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import NumbaCpuOps
from sgframe_torch.logprobs import keep_largest, likeliest, prompt_logprobs
from sgframe_torch.sampler import Sampler, uniform

NAN, INF = math.nan, math.inf

DEVICES = {"plain": PlainOps(), "compiled": NumbaCpuOps(CpuSettings(threads=1))}


@pytest.fixture(autouse=True, params=DEVICES)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICES, "chosen", DEVICES[request.param])


def sampler(vocab_size: int) -> Sampler:
    return Sampler(vocab_size, DEVICES["chosen"])


@dataclass
class Row:
    sampling: TokenSampling
    tokens: Ints = field(default_factory=lambda: ints([0]))
    prompt_len: int = 1


def row(tokens: Any = (0,), prompt_len: int = 1, *, seed: int = 0, **sampling: Any) -> Row:
    return Row(TokenSampling(seed=seed, **sampling), ints(tokens), prompt_len)


def greedy(tokens: Any = (0,), prompt_len: int = 1, **sampling: Any) -> Row:
    return row(tokens, prompt_len, temperature=0.0, **sampling)


class Sampled(NamedTuple):
    tokens: list[int]
    logprobs: list[Logprobs | None]


def run(sampler: Sampler, logits: torch.Tensor, rows: Sequence[Row], masks: torch.Tensor | None = None) -> Sampled:
    tokens = sampler.choose(logits, rows, masks).tolist()
    return Sampled(tokens, sampler.logprobs(logits, tokens, rows))


def sample(logits: Any, *rows: Row, masks: torch.Tensor | None = None) -> Sampled:
    table = torch.from_numpy(np.asarray(logits, np.float32))
    return run(sampler(table.shape[1]), table, rows, masks)


def words(*masks: int) -> torch.Tensor:
    """One word for each row."""
    return torch.tensor([[mask] for mask in masks], dtype=torch.int32)


def support(logits: list[float], draws: int = 300, **sampling: Any) -> set[int]:
    """Every token that ``draws`` seeds give."""
    rows = [row(seed=seed, **sampling) for seed in range(draws)]
    return set(sample([logits] * draws, *rows).tokens)


# ------------------------------------------------------------------------------------------------------ greedy


def test_temperature_0_takes_the_largest_logit() -> None:
    assert sample([[0.0, 3.0, 1.0], [5.0, 3.0, 1.0]], greedy(), greedy()).tokens == [1, 0]


def test_equal_logits_go_to_the_lower_id() -> None:
    assert sample([[1.0, 2.0, 2.0]], greedy()).tokens == [1]


def test_equal_logits_go_to_the_lower_id_with_top_k_1() -> None:
    assert support([1.0, 2.0, 2.0], top_k=1) == {1}


def test_a_padded_output_layer_is_never_chosen() -> None:
    assert run(sampler(2), torch.tensor([[1.0, 2.0, 9.0]]), [greedy()]).tokens == [1]


def test_logits_are_left_as_they_are() -> None:
    logits = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    run(sampler(2), logits, [row(repetition_penalty=2.0), greedy(logit_bias={0: 9.0})], words(1, 2))
    assert logits.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_bfloat16_logits_are_sampled_like_their_float32_values() -> None:
    logits = torch.linspace(-3, 3, 50).bfloat16().repeat(40, 1)
    rows = [row(seed=seed, top_p=0.8) for seed in range(40)]
    assert run(sampler(50), logits, rows) == run(sampler(50), logits.float(), rows)


# ------------------------------------------------------------------------------------------- penalties and bias


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits_of_prompt_and_output() -> None:
    penalised = greedy([0, 1], prompt_len=1, repetition_penalty=2.0)
    assert sample([[3.0, 2.9, 1.6]], penalised).tokens == [2]  # 1.5, 1.45, 1.6
    assert sample([[-1.0, -1.1, -1.9]], penalised).tokens == [2]  # -2.0, -2.2, -1.9


def test_repetition_penalty_counts_a_token_once() -> None:
    assert sample([[4.0, 1.9]], greedy([0, 0, 0], repetition_penalty=2.0)).tokens == [0]  # 2.0, not 0.5


def test_presence_penalty_is_subtracted_once_from_output_tokens_only() -> None:
    repeated = greedy([1, 0, 0], prompt_len=1, presence_penalty=1.0)
    assert sample([[3.0, 1.9, 0.0]], repeated).tokens == [0]  # 2.0, 1.9
    assert sample([[3.0, 2.1, 0.0]], repeated).tokens == [1]  # 2.0, 2.1: the prompt's token is not penalised


def test_frequency_penalty_is_subtracted_for_every_output_token() -> None:
    repeated = greedy([1, 0, 0], prompt_len=1, frequency_penalty=0.5)
    assert sample([[3.0, 1.9]], repeated).tokens == [0]  # 2.0, 1.9
    assert sample([[3.0, 2.1]], repeated).tokens == [1]  # 2.0, 2.1


def test_negative_penalties_reward() -> None:
    assert sample([[1.0, 2.0]], greedy([1, 0], prompt_len=1, presence_penalty=-2.0)).tokens == [0]


def test_logit_bias_is_added_after_the_penalties() -> None:
    biased = greedy([0, 0], prompt_len=1, repetition_penalty=2.0, presence_penalty=1.0, logit_bias={0: 1.0})
    assert sample([[4.0, 1.9]], biased).tokens == [0]  # 4 / 2 - 1 + 1 = 2.0
    assert sample([[4.0, 2.1]], biased).tokens == [1]


def test_each_row_has_its_own_penalties() -> None:
    rows = [greedy([0, 0]), greedy([0, 0], logit_bias={1: 5.0}), greedy([0, 0], presence_penalty=2.0), greedy([0, 0])]
    assert sample([[2.0, 1.0]] * 4, *rows).tokens == [0, 1, 1, 0]


# -------------------------------------------------------------------------------------------------------- masks


def test_a_mask_allows_the_token_of_each_set_bit() -> None:
    bits = np.zeros((3, 3), np.uint32)
    bits[0, 0], bits[1, 1], bits[2, 2] = 1 << 31, 1 << 0, 1 << 5
    rows = [greedy(), greedy(), row()]
    masks = torch.from_numpy(bits.view(np.int32))
    assert sample(np.linspace(9, 0, 70)[None].repeat(3, 0), *rows, masks=masks).tokens == [31, 32, 69]


def test_the_mask_beats_the_bias() -> None:
    assert sample([[0.0, 0.0]], greedy(logit_bias={1: 100.0}), masks=words(0b01)).tokens == [0]


def test_a_mask_that_allows_nothing_invalidates_its_row_alone() -> None:
    assert sample([[1.0, 2.0]] * 2, greedy(), row(), masks=words(0b11, 0)).tokens == [1, -1]


# ------------------------------------------------------------------------------------------------------ filters


def test_top_k_keeps_the_k_likeliest() -> None:
    assert support([0.0, 0.3, 0.2, 0.1], top_k=2) == {1, 2}


def test_top_k_keeps_k_even_among_equals() -> None:
    assert support([0.0, 0.0, 0.0, 0.0], top_k=3) == {0, 1, 2}


def test_top_k_beyond_the_vocabulary_keeps_all() -> None:
    assert support([0.0, 0.0, 0.0], top_k=2**63 - 1) == {0, 1, 2}


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = [math.log(p) for p in (0.1, 0.5, 0.15, 0.25)]
    assert support(logits, top_p=0.74) == {1, 3}
    assert support(logits, top_p=0.76) == {1, 3, 2}
    assert support(logits, top_p=0.49) == {1}


def test_a_tiny_top_p_keeps_the_likeliest() -> None:
    assert support([0.0, 0.1, 0.0], top_p=1e-9) == {1}


def test_top_p_counts_what_top_k_left() -> None:
    logits = [math.log(p) for p in (0.4, 0.2, 0.2, 0.2)]
    assert support(logits, top_k=2, top_p=0.6) == {0}  # 0.4 / 0.6 reaches 0.6; of all four it would not


def test_top_p_sees_the_temperature() -> None:
    logits = [math.log(p) for p in (0.6, 0.3, 0.1)]
    assert support(logits, top_p=0.65, temperature=0.5) == {0}  # squared and normalised: 0.78, 0.20, 0.02
    assert support(logits, top_p=0.65, temperature=1.0) == {0, 1}


def test_min_p_is_relative_to_the_likeliest() -> None:
    logits = [math.log(p) for p in (0.5, 0.26, 0.24)]
    assert support(logits, min_p=0.5) == {0, 1}


def test_the_nucleus_is_found_however_large_it_is() -> None:
    """Flat logits: the nucleus is far larger than the first candidates that the filter looks at."""
    vocab, rows = 5000, [row(seed=seed, top_p=0.5) for seed in range(200)]
    tokens = sample([[0.0] * vocab] * 200, *rows).tokens
    assert max(tokens) < 2501
    assert max(tokens) > 2400


@pytest.mark.parametrize("top_k", [0, 1, 7, 70, 300, 3000])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3])
@pytest.mark.parametrize("min_p", [0.0, 0.05])
def test_filters_agree_with_a_plain_sort(top_k: int, top_p: float, min_p: float) -> None:
    rng = np.random.default_rng(top_k)
    logits = np.round(rng.normal(0, 2, (8, 2000)), 1).astype(np.float32)  # rounded: many equals
    rows = [row(seed=i, top_k=top_k, top_p=top_p, min_p=min_p, temperature=0.7) for i in range(8)]
    assert sample(logits, *rows).tokens == [plain_draw(logits[i], rows[i]) for i in range(8)]


def plain_draw(logits: np.ndarray, state: Row) -> int:
    """Top-k, top-p and min-p by one stable sort, then the inverse of the cumulative distribution in order of ids."""
    s = state.sampling
    scaled = logits.astype(np.float64) / s.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    order = np.argsort(-probabilities, kind="stable")[: s.top_k or None]
    mass = probabilities[order].cumsum()
    order = order[np.concatenate([[True], mass[:-1] < s.top_p * mass[-1]])]
    order = order[probabilities[order] >= s.min_p * probabilities.max() * (1 - 1e-6)]
    kept = np.zeros_like(probabilities)
    kept[order] = probabilities[order]
    cumulative = kept.cumsum()
    return int(np.searchsorted(cumulative, uniform(s.seed, len(state.tokens)) * cumulative[-1], side="right"))


# ------------------------------------------------------------------------------------------------- distribution


def test_draws_follow_the_probabilities() -> None:
    expected = np.array([0.5, 0.3, 0.15, 0.05])
    rows = [row(seed=seed) for seed in range(4000)]
    counts = Counter(sample([np.log(expected)] * 4000, *rows).tokens)
    observed = np.array([counts[token] for token in range(4)])
    chi_square = ((observed - 4000 * expected) ** 2 / (4000 * expected)).sum()
    assert chi_square < 16.27  # 3 degrees of freedom: exceeded once in a thousand sets of seeds


def test_temperature_divides_the_logits() -> None:
    rows = [row(seed=seed, temperature=2.0) for seed in range(4000)]
    share = sample([[math.log(9.0), 0.0]] * 4000, *rows).tokens.count(0) / 4000
    assert share == pytest.approx(0.75, abs=0.02)  # the square root of 9, to 1


@pytest.mark.parametrize("temperature", [1e-6, 1e-40, 5e-324])
def test_the_smallest_temperatures_are_greedy(temperature: float) -> None:
    assert support([1000.0, 1001.0, -1000.0], temperature=temperature) == {1}


def test_successive_positions_of_one_seed_draw_independently() -> None:
    draws = np.array([uniform(7, position) for position in range(4000)])
    assert draws.mean() == pytest.approx(0.5, abs=0.02)
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.05


def test_neighbouring_seeds_draw_independently() -> None:
    draws = np.array([[uniform(seed, position) for position in range(40)] for seed in range(100)])
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.05


def test_seed_0_gives_the_published_sequence_of_splitmix64() -> None:
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [uniform(0, position) for position in range(3)] == [(value >> 11) * 2.0**-53 for value in published]


def test_a_seed_gives_the_same_draws_in_every_version() -> None:
    assert [uniform(42, 10), uniform(-1, 0)] == [0.7644456102917686, 0.64635420864685]


@pytest.mark.parametrize("edge", [0.0, 1 - 2**-53])
def test_no_draw_falls_on_a_token_that_is_left_out(edge: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgframe_torch.sampler.uniform", lambda seed, position: edge)
    logits = [[-INF, *np.random.default_rng(i).normal(size=50), -INF] for i in range(50)]
    tokens = sample(logits, *[row() for _ in range(50)]).tokens
    assert tokens == [1 if edge == 0 else 50] * 50


# ------------------------------------------------------------------------------------------------- independence


def _mixed_rows() -> tuple[torch.Tensor, list[Row]]:
    logits = torch.randn(6, 3000, generator=torch.Generator().manual_seed(1)) * 2
    wishes: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"top_k": 5},
        {"top_p": 0.9},
        {"top_p": 0.99, "temperature": 3.0},
        {"min_p": 0.1, "presence_penalty": 1.0},
        {"top_k": 100, "top_p": 0.8, "repetition_penalty": 1.2},
    ]
    return logits, [row(range(4 + i), 2, seed=i, **wish) for i, wish in enumerate(wishes)]


def test_a_row_alone_gives_what_it_gives_in_a_batch() -> None:
    logits, rows = _mixed_rows()
    together = sample(logits, *rows).tokens
    assert together == [sample(logits[i : i + 1], rows[i]).tokens[0] for i in range(6)]


def test_the_place_in_the_batch_changes_nothing() -> None:
    logits, rows = _mixed_rows()
    assert sample(logits.flip(0), *reversed(rows)).tokens == sample(logits, *rows).tokens[::-1]


def test_a_seed_reproduces_and_another_differs() -> None:
    rows = [[row(range(n), seed=seed) for n in range(1, 60)] for seed in (3, 3, 4)]
    first, again, other = (sample([[0.0] * 50] * 59, *each).tokens for each in rows)
    assert first == again
    assert first != other


# --------------------------------------------------------------------------------------------- non-finite logits


@pytest.mark.parametrize("bad", [[NAN, 1.0], [1.0, NAN], [-INF, -INF], [INF, 1.0], [NAN, INF]])
@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"top_p": 0.5}, {"logit_bias": {0: 1.0}}])
def test_non_finite_logits_invalidate_their_row_alone(bad: list[float], sampling: dict[str, Any]) -> None:
    rows = [greedy(logprobs=1), row(logprobs=1, **sampling), greedy(logprobs=1)]
    sampled = sample([[1.0, 2.0], bad, [2.0, 1.0]], *rows)
    assert sampled.tokens == [1, -1, 0]
    assert [entry is None for entry in sampled.logprobs] == [False, True, False]


def test_a_single_impossible_token_is_no_fault() -> None:
    assert sample([[-INF, 0.0], [0.0, -INF]], greedy(), row()).tokens == [1, 0]


# ------------------------------------------------------------------------------------------------------ logprobs

TABLE = [math.log(p) for p in (0.1, 0.6, 0.3)]


def test_no_row_asked_for_logprobs() -> None:
    assert sample([TABLE] * 2, greedy(), row()).logprobs == []


def test_only_rows_that_asked_get_logprobs() -> None:
    first, second = sample([TABLE] * 2, greedy(), greedy(logprobs=0)).logprobs
    assert first is None
    assert second is not None
    assert (second.token, list(second.top_ids), second.top_logprobs) == (1, [], [])
    assert second.logprob == pytest.approx(math.log(0.6))


def test_top_logprobs_are_sorted_and_as_many_as_asked() -> None:
    two, three = sample([TABLE] * 2, greedy(logprobs=2), greedy(logprobs=3)).logprobs
    assert two is not None
    assert three is not None
    assert list(two.top_ids) == [1, 2]
    assert two.top_logprobs == pytest.approx([math.log(0.6), math.log(0.3)])
    assert list(three.top_ids) == [1, 2, 0]


def test_logprobs_are_the_models_own() -> None:
    """Before penalties, bias, mask, temperature and filters; the chosen token need not be among the likeliest."""
    shaped = row([1], repetition_penalty=9.0, logit_bias={0: 50.0}, temperature=0.3, top_k=1, logprobs=1)
    (entry,) = sample([TABLE], shaped, masks=words(0b101)).logprobs
    assert entry is not None
    assert (entry.token, list(entry.top_ids)) == (0, [1])
    assert [entry.logprob, *entry.top_logprobs] == pytest.approx([math.log(0.1), math.log(0.6)])


def test_prompt_logprobs_of_more_rows_than_one_chunk() -> None:
    logits = torch.randn(100, 40, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(100) % 40
    entries = prompt_logprobs(logits, targets, 4)
    expected = torch.log_softmax(logits, -1)
    assert [e.token for e in entries] == targets.tolist()
    assert [e.logprob for e in entries] == pytest.approx(expected[torch.arange(100), targets].tolist())
    assert [list(e.top_ids) for e in entries] == expected.topk(4).indices.tolist()


def test_prompt_logprobs_of_bfloat16_logits_are_taken_in_float32() -> None:
    logits = torch.linspace(-2, 2, 1000).bfloat16().repeat(2, 1)
    (first, _) = prompt_logprobs(logits, torch.tensor([5, 6]), 0)
    assert first.logprob == pytest.approx(torch.log_softmax(logits.float(), -1)[0, 5].item(), abs=1e-5)


def test_ranking_puts_the_lower_of_equal_ids_first() -> None:
    values = torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert likeliest(values, 1).tolist() == [[1], [0]]
    assert likeliest(values, 3).tolist() == [[1, 3, 0], [0, 1, 2]]


def test_keep_largest_keeps_a_different_count_in_each_row() -> None:
    values = torch.tensor([[1.0, 3.0, 1.0, 3.0], [4.0, 3.0, 2.0, 1.0]])
    kept = keep_largest(values, values.topk(3).values, torch.tensor([3, 1]))
    assert kept.tolist() == [[True, True, False, True], [True, False, False, False]]
