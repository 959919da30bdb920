"""The sampling kernels, interpreted: small cases written out, and many random rows against the plain definition."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from sgframe_torch.drawing import Draws
from sgframe_torch.drawing import draw as plain_draw

pytest.importorskip("triton", reason="Triton is for Linux")

from sgframe_cuda import fused

ALMOST_ONE = 1 - 2**-53
MARGIN = 1e-5
"""Of the whole mass: how far float32 may move the border between two tokens."""


def draws(
    uniforms: Sequence[float], temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> Draws:
    n = len(uniforms)
    return Draws(
        torch.full((n,), temperature),
        torch.full((n,), top_k, dtype=torch.int32),
        torch.full((n,), top_p),
        torch.full((n,), min_p),
        torch.tensor(uniforms, dtype=torch.float64),
    )


def tokens(probabilities: Sequence[float], *uniforms: float, **parameters: float) -> list[int]:
    """What ``uniforms`` draw from ``probabilities`` (in any unit)."""
    logits = torch.tensor(probabilities).log().repeat(len(uniforms), 1)
    return fused.draw(logits, draws(uniforms, **parameters)).tolist()


# --------------------------------------------------------------------------------------------------- inversion


def test_the_cumulative_distribution_is_inverted_in_the_order_of_tokens():
    assert tokens([0.1, 0.6, 0.3], 0.0, 0.09, 0.11, 0.69, 0.71, ALMOST_ONE) == [0, 0, 1, 1, 2, 2]


def test_tokens_without_mass_are_never_drawn():
    assert tokens([0, 0.5, 0, 0.5, 0], 0.0, 0.49, 0.51, ALMOST_ONE) == [1, 1, 3, 3]


def test_the_temperature_comes_first():
    assert tokens([0.64, 0.36], 0.57, 0.58, temperature=2.0) == [0, 1]  # 8 : 6
    assert tokens([0.64, 0.36], 0.75, 0.77, temperature=0.5) == [0, 1]  # 64² : 36²


def test_the_least_temperature_takes_the_largest():
    assert tokens([0.3, 0.4, 0.3], 0.0, ALMOST_ONE, temperature=torch.finfo(torch.float32).tiny) == [1, 1]


def test_tokens_are_int64():
    assert fused.draw(torch.zeros(1, 3), draws([0.5])).dtype == torch.int64


def test_no_rows():
    assert fused.draw(torch.empty(0, 8), draws([])).tolist() == []


# ----------------------------------------------------------------------------------------------------- filters


def test_top_k_one_takes_the_largest():
    assert tokens([0.2, 0.5, 0.3], 0.0, ALMOST_ONE, top_k=1) == [1, 1]


def test_top_k_keeps_the_lower_ids_among_equals():
    assert tokens([1, 2, 1, 1], 0.24, 0.26, ALMOST_ONE, top_k=3) == [0, 1, 2]


def test_top_k_of_the_vocabulary_and_more_keeps_all():
    assert tokens([0.5, 0.5], ALMOST_ONE, top_k=2) == [1]
    assert tokens([0.5, 0.5], ALMOST_ONE, top_k=2**31 - 1) == [1]


def test_top_k_beyond_the_tokens_that_have_mass():
    assert tokens([0, 0.6, 0, 0.3, 0], 0.66, 0.67, ALMOST_ONE, top_k=4) == [1, 3, 3]


def test_top_p_keeps_the_token_that_reaches_it():
    assert tokens([0.1, 0.3, 0.6], 0.0, ALMOST_ONE, top_p=0.59) == [2, 2]
    assert tokens([0.1, 0.3, 0.6], 0.32, 0.34, top_p=0.61) == [1, 2]  # 3 : 6


def test_the_least_top_p_takes_the_largest():
    assert tokens([0.2, 0.5, 0.3], 0.0, ALMOST_ONE, top_p=1e-30) == [1, 1]


def test_top_p_keeps_the_lower_ids_among_equals():
    assert tokens([1, 1, 1, 1], 0.49, 0.51, ALMOST_ONE, top_p=0.5) == [0, 1, 1]


def test_top_p_is_a_part_of_what_top_k_left():
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_k=2, top_p=0.57) == [0]  # 0.57 · 0.7 < 0.4
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_p=0.57) == [1]


def test_top_p_cuts_the_equals_that_top_k_left():
    assert tokens([1, 1, 1, 1, 1], 0.49, 0.51, ALMOST_ONE, top_k=4, top_p=0.5) == [0, 1, 1]
    assert tokens([1, 1, 1, 1, 4], 0.19, 0.21, top_k=3, top_p=0.8) == [0, 4]  # 4 + 1 reach 0.8 · 6


def test_min_p_is_a_part_of_the_largest():
    assert tokens([0.1, 0.3, 0.6], 0.0, ALMOST_ONE, min_p=0.4) == [1, 2]
    assert tokens([0.1, 0.3, 0.6], 0.0, ALMOST_ONE, min_p=0.6) == [2, 2]


def test_min_p_one_keeps_all_that_are_largest():
    assert tokens([0.4, 0.2, 0.4], 0.49, 0.51, min_p=1.0) == [0, 2]


def test_min_p_comes_last():
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_k=3, min_p=0.6) == [1]
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_k=2, min_p=0.1) == [1]
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_p=0.6, min_p=0.9) == [0]
    # Had min-p come first, 0.4 of 0.7 would have been a nucleus of 0.57 by itself.
    assert tokens([0.4, 0.3, 0.2, 0.1], ALMOST_ONE, top_p=0.57, min_p=0.6) == [1]


# ---------------------------------------------------------------------------------------------------- bad rows


@pytest.mark.parametrize("parameters", [{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}], ids=str)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_a_row_that_is_not_finite_gets_some_token_and_the_others_theirs(value, parameters):
    logits = torch.tensor([[1.0, 9.0, 0.0]] * 3)
    logits[1] = value
    first, bad, last = fused.draw(logits, draws([0.5] * 3, **parameters)).tolist()
    assert first == last == 1
    assert 0 <= bad < 3


# ------------------------------------------------------------------------------------------- against the definition


def random_draws(n: int) -> Draws:
    def of(*values: float) -> Tensor:
        return torch.tensor(values)[torch.randint(len(values), (n,))]

    return Draws(
        of(0.3, 0.7, 1.0, 1.5, 100.0),
        of(0, 0, 1, 5, 20, 150, 10**6).int(),
        of(1.0, 1.0, 0.05, 0.5, 0.9, 0.99),
        of(0.0, 0.0, 0.02, 0.3),
        torch.rand(n, dtype=torch.float64),
    )


def assert_agree(logits: Tensor, parameters: Draws, block: int) -> None:
    """The tokens are those of the definition, or their neighbours where the uniform is at the border between them."""
    ours = fused.draw(logits.clone(), parameters, block)
    right, low, high = (
        plain_draw(logits.clone(), parameters._replace(uniform=(parameters.uniform + shift).clamp(0, ALMOST_ONE)))
        for shift in (0, -MARGIN, MARGIN)
    )
    assert ((low <= ours) & (ours <= high)).all()
    assert (ours != right).float().mean() <= 0.01


def logits_of(n: int, vocab: int, kind: str) -> Tensor:
    logits = 3 * torch.randn(n, vocab)
    if kind == "ties":
        return logits.round()
    return logits.bfloat16().float() if kind == "bfloat16" else logits


@pytest.mark.parametrize(("kind", "rows"), [("float32", 10), ("ties", 4)])
def test_random_rows_of_several_blocks(kind, rows):
    torch.manual_seed(1)
    assert_agree(logits_of(rows, 180, kind), random_draws(rows), block=64)


def test_a_nucleus_too_large_for_the_short_list():
    torch.manual_seed(0)
    assert_agree(torch.rand(1, 200), draws([0.7], top_p=0.9), block=32)


def test_more_tokens_than_the_short_list_holds():
    torch.manual_seed(0)
    assert_agree(torch.randn(1, 200), draws([0.7], top_k=150), block=32)


def test_equals_throughout_the_row():
    assert fused.draw(torch.zeros(1, 90), draws([0.5], top_k=80), block=32).tolist() == [40]


def test_equals_that_are_not_kept_are_passed_by():
    logits = torch.zeros(3, 96)
    logits[:, 95] = torch.tensor(4.0).log()
    uniforms = [0.1, 0.3, 0.4]  # 0 and 1 have a sixth each
    assert fused.draw(logits, draws(uniforms, top_k=3), block=32).tolist() == [0, 1, 95]


def test_logits_in_longer_rows():
    torch.manual_seed(0)
    padded = torch.full((3, 64), 50.0)
    padded[:, :40] = torch.randn(3, 40)
    parameters = draws([0.1, 0.5, 0.9], top_p=0.9)
    assert torch.equal(fused.draw(padded[:, :40], parameters), plain_draw(padded[:, :40].clone(), parameters))


def test_the_size_of_a_block_changes_no_token():
    torch.manual_seed(0)
    logits, parameters = torch.randn(4, 100), random_draws(4)
    assert torch.equal(fused.draw(logits, parameters, block=32), fused.draw(logits, parameters))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "ties"])
@pytest.mark.parametrize(("vocab", "block"), [(2, 8192), (50, 16), (1000, 256), (5000, 8192), (40000, 8192)])
def test_many_random_rows(vocab, block, kind):
    torch.manual_seed(0)
    assert_agree(logits_of(24, vocab, kind), random_draws(24), block)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("vocab", [128256, 262144])
def test_vocabularies_of_models(vocab):
    torch.manual_seed(0)
    assert_agree(logits_of(12, vocab, "bfloat16"), random_draws(12), fused.SAMPLING_BLOCK)
