"""Linear layers by packed weights agree with torch's, for every count of rows and every rest of rows and columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgframe_cpu.arena import Arena
from sgframe_cpu.linear import PackedLinear, can_pack, pack
from sgframe_cpu.linear_kernels import ROW_GROUP
from sgframe_cpu.team import Team
from sgframe_cpu.tiles import COLUMNS, MOST_ROWS


def both(tokens, inner, columns, dtype, bias=False, threads=1):
    """What the packed layer gives, and the same in float64."""
    torch.manual_seed(0)
    x, weight = torch.randn(tokens, inner).to(dtype), (torch.randn(columns, inner) / inner**0.5).to(dtype)
    offset = torch.randn(columns).to(dtype) if bias else None
    expected = torch.nn.functional.linear(x.double(), weight.double(), None if offset is None else offset.double())
    return PackedLinear(weight, offset, Team(threads))(x), expected


def assert_near(ours, expected):
    """The results are about 1. bfloat16: half a unit in its last place, and a little more."""
    if ours.dtype == torch.float32:
        torch.testing.assert_close(ours.double(), expected, atol=4e-6, rtol=0)
    else:
        torch.testing.assert_close(ours.double(), expected, atol=1e-3, rtol=2**-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tokens", [*range(1, 2 * MOST_ROWS + 1), ROW_GROUP + 5])
def test_every_count_of_rows(dtype, tokens):
    assert_near(*both(tokens, 64, 2 * COLUMNS, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [1, COLUMNS - 1, COLUMNS + 1, 3 * COLUMNS + 7])
def test_columns_that_fill_no_block(dtype, columns):
    assert_near(*both(11, 24, columns, dtype, bias=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("inner", [2, 6, 30, 258, 514, 1030])
def test_every_inner_size(dtype, inner):
    for tokens in (1, 2, 3, 8):
        assert_near(*both(tokens, inner, COLUMNS, dtype))


def test_a_bias_is_added():
    assert_near(*both(3, 16, 40, torch.bfloat16, bias=True))


def test_threads_share_the_blocks():
    assert_near(*both(300, 64, 40 * COLUMNS + 3, torch.bfloat16, threads=3))


def test_leading_dimensions_are_kept():
    x, weight = torch.randn(2, 3, 8), torch.randn(5, 8)
    torch.testing.assert_close(PackedLinear(weight, None, Team(1))(x), torch.nn.functional.linear(x, weight))


def test_a_row_depends_on_no_other():
    torch.manual_seed(0)
    layer = PackedLinear(torch.randn(64, 32).bfloat16(), None, Team(1))
    x = torch.randn(21, 32).bfloat16()
    alone = torch.cat([layer(row[None]) for row in x])
    torch.testing.assert_close(layer(x), alone, atol=0, rtol=2**-8)


def test_infinite_and_missing_numbers_come_through():
    x = torch.ones(2, 4).bfloat16()
    x[0, 1], x[1, 2] = torch.nan, torch.inf
    result = PackedLinear(torch.ones(3, 4).bfloat16(), None, Team(1))(x)
    assert result[0].isnan().all()
    assert (result[1] == torch.inf).all()


def test_long_sums_are_as_exact_as_those_of_torch():
    ours, expected = both(4, 4096, COLUMNS, torch.float32)
    assert (ours - expected).abs().max() < 3e-6


def test_pack_lays_words_of_32_columns_side_by_side():
    packed = pack(torch.arange(40 * 4, dtype=torch.float32).reshape(40, 4), Arena()).view(np.float32)
    assert packed.shape == (2, 4, COLUMNS)
    assert packed[0, 1, :3].tolist() == [1, 5, 9]  # element 1 of columns 0, 1, 2
    assert packed[1, 0, :9].tolist() == [128, 132, 136, 140, 144, 148, 152, 156, 0]


def test_a_word_of_bfloat16_holds_two_neighbours():
    packed = pack(torch.tensor([[1.0, 2.0]]).bfloat16(), Arena())
    assert hex(packed[0, 0, 0]) == "0x40003f80"


def test_odd_rows_of_bfloat16_are_left_to_torch():
    assert not can_pack(torch.empty(4, 3, dtype=torch.bfloat16))
    assert can_pack(torch.empty(4, 3, dtype=torch.float32))
    assert not can_pack(torch.empty(4, 4, dtype=torch.float16))
