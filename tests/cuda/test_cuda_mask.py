"""The mask kernel, interpreted: tokens whose bit is not set get -inf, and nothing else is touched."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgframe_torch.drawing import unpack_mask

pytest.importorskip("triton", reason="Triton is for Linux")

from sgframe_cuda import fused


def words_of(rows: int, vocab: int) -> Tensor:
    return torch.randint(-(2**31), 2**31, (rows, -(-vocab // 32)), dtype=torch.int64).int()


def assert_masks(rows: int, vocab: int) -> None:
    torch.manual_seed(0)
    logits, words = torch.randn(rows, vocab), words_of(rows, vocab)
    right = logits.masked_fill(~unpack_mask(words, vocab), -torch.inf)
    fused.apply_mask(logits, words)
    assert torch.equal(logits, right)


def test_each_bit_speaks_for_its_token():
    logits = torch.zeros(1, 40)
    fused.apply_mask(logits, torch.tensor([[0b1010 - 2**31, 0b100]], dtype=torch.int32))
    assert (logits[0] == 0).nonzero().flatten().tolist() == [1, 3, 31, 34]
    assert (logits[0] == -torch.inf).sum() == 36


@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 100, 4096, 5000])
def test_vocabularies_that_do_and_do_not_fill_their_last_word(vocab):
    assert_masks(3, vocab)


def test_what_lies_behind_the_vocabulary_stays():
    torch.manual_seed(0)
    padded, words = torch.zeros(3, 64), torch.zeros(3, 2, dtype=torch.int32)
    fused.apply_mask(padded[:, :50], words)
    assert (padded[:, :50] == -torch.inf).all()
    assert (padded[:, 50:] == 0).all()


def test_masks_that_lie_in_longer_rows():
    torch.manual_seed(0)
    logits, words = torch.randn(2, 40), words_of(2, 96)[:, :2]
    right = logits.masked_fill(~unpack_mask(words, 40), -torch.inf)
    fused.apply_mask(logits, words)
    assert torch.equal(logits, right)


def test_allowed_logits_stay_whatever_they_are():
    logits = torch.tensor([[torch.nan, torch.inf, -torch.inf, 1.0]])
    fused.apply_mask(logits, torch.tensor([[0b0111]], dtype=torch.int32))
    torch.testing.assert_close(logits, torch.tensor([[torch.nan, torch.inf, -torch.inf, -torch.inf]]), equal_nan=True)


def test_no_rows():
    fused.apply_mask(torch.empty(0, 50), torch.empty(0, 2, dtype=torch.int32))


@pytest.mark.slow
@pytest.mark.parametrize("vocab", [32000, 50257, 128256, 151936, 262144])
def test_vocabularies_of_models(vocab):
    assert_masks(4, vocab)
