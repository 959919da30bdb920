"""Norms, activation, rotary embedding and KV write, interpreted, agree with the plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain_ops import PlainOps
from torch import Tensor

from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm

pytest.importorskip("triton", reason="Triton is for Linux")

import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from sgframe_cuda import fused

EPS = 1e-6
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
ROUNDING = {torch.float32: 2**-22, torch.float16: 2**-10, torch.bfloat16: 2**-7}
"""What a result may differ by, relative to it: the order of a sum in float32, else one unit in the last place."""
plain = PlainOps()


@pytest.fixture(autouse=True)
def round_as_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.6 interprets a cast to bfloat16 by cutting off what does not fit. A device rounds to the nearest."""
    original = InterpreterBuilder.cast_impl

    def cast(builder: InterpreterBuilder, source: TensorHandle, target: tl.dtype) -> TensorHandle:
        if (source.dtype.scalar, target.scalar) != (tl.float32, tl.bfloat16):
            return original(builder, source, target)
        rounded = torch.from_numpy(source.data).bfloat16()
        return TensorHandle(rounded.view(torch.int16).numpy().view(np.uint16), tl.bfloat16)

    monkeypatch.setattr(InterpreterBuilder, "cast_impl", cast)


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    torch.manual_seed(0)
    return request.param


def assert_agree(ours: Tensor, theirs: Tensor, least: float = 1e-6) -> None:
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=ROUNDING[ours.dtype], atol=least)


# -------------------------------------------------------------------------------------------------------- norms


def test_rms_norm_divides_by_the_root_of_the_mean_square():
    ours = fused.rms_norm(torch.tensor([[1.0, 7, 5, 5]]), torch.tensor([1.0, 1, 2, -1]), 0.0)
    torch.testing.assert_close(ours, torch.tensor([[0.2, 1.4, 2.0, -1.0]]))


def test_rms_norm(dtype):
    x, weight = torch.randn(3, 96).to(dtype), torch.randn(96).to(dtype)
    assert_agree(fused.rms_norm(x, weight, EPS), plain.rms_norm(x, weight, EPS))


def test_rms_norm_of_each_head_of_a_part_of_a_projection(dtype):
    x, weight = torch.randn(3, 100).to(dtype)[:, 20:84].unflatten(1, (4, 16)), torch.randn(16).to(dtype)
    assert_agree(fused.rms_norm(x, weight, EPS), plain.rms_norm(x, weight, EPS))


def test_rms_norm_of_more_dimensions(dtype):
    x, weight = torch.randn(2, 3, 2, 16).to(dtype), torch.randn(16).to(dtype)
    assert_agree(fused.rms_norm(x, weight, EPS), plain.rms_norm(x, weight, EPS))


def test_rms_norm_rounds_before_it_multiplies():
    torch.manual_seed(0)
    x, weight = torch.randn(1, 64).half(), torch.full((64,), 1.1).half()
    once = (x.double() / x.double().square().mean().sqrt() * weight).half()
    assert torch.equal(fused.rms_norm(x, weight, 0.0), plain.rms_norm(x, weight, 0.0))
    assert not torch.equal(fused.rms_norm(x, weight, 0.0), once)


def test_add_rms_norm_adds_in_place_what_a_sum_of_the_dtype_is(dtype):
    x, residual, weight = torch.randn(3, 96).to(dtype), torch.randn(3, 96).to(dtype), torch.randn(96).to(dtype)
    ours, theirs = residual.clone(), residual.clone()
    assert_agree(fused.add_rms_norm(x, ours, weight, EPS), plain.add_rms_norm(x, theirs, weight, EPS))
    assert_agree(ours, theirs, least=0)


def test_add_rms_norm_of_parts_of_each_row():
    torch.manual_seed(0)
    x, ours, weight = torch.randn(3, 100)[:, 4:36], torch.randn(3, 70), torch.randn(32)
    theirs = ours.clone()
    assert_agree(fused.add_rms_norm(x, ours[:, 8:40], weight, EPS), plain.add_rms_norm(x, theirs[:, 8:40], weight, EPS))
    assert torch.equal(ours, theirs)


# --------------------------------------------------------------------------------------------------- activation


def test_silu_mul(dtype):
    gate_up = 8 * torch.randn(2, 2 * 1100).to(dtype)  # more than one program's share, and no power of two
    assert_agree(fused.silu_mul(gate_up), plain.silu_mul(gate_up))


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
def test_silu_mul_at_the_ends_of_the_range():
    gate_up = torch.tensor([[-1e4, -200.0, -89.0, 0.0, 89.0, 1e4, torch.nan, 1.0] + [1.0] * 8])
    ours, theirs = fused.silu_mul(gate_up), plain.silu_mul(gate_up)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6, equal_nan=True)


# ------------------------------------------------------------------------------------------- rotary and KV write


def assert_rotates(dtype: torch.dtype, heads: int, kv_heads: int, dim: int, normed: bool) -> None:
    tokens, slots = 3, torch.tensor([6, 0, 3])
    qkv = torch.randn(tokens, (heads + 2 * kv_heads) * dim).to(dtype)
    norm = QKNorm(torch.randn(dim).to(dtype), torch.randn(dim).to(dtype), EPS) if normed else None
    angles = torch.randn(tokens, dim // 2)
    rotary = angles.cos(), angles.sin()
    ours, theirs = (LayerKV(*torch.zeros(2, 7, kv_heads, dim, dtype=dtype)) for _ in range(2))
    query = fused.rotate_and_store(qkv.clone(), norm, rotary, slots, ours)
    pairs = zip((query, *ours), (plain.rotate_and_store(qkv, norm, rotary, slots, theirs), *theirs), strict=True)
    for mine, right in pairs:
        assert_agree(mine, right, least=8 * ROUNDING[dtype])  # what a rounding of one of a pair makes of the other


@pytest.mark.parametrize("normed", [False, True], ids=["plain", "normed"])
def test_rotate_and_store(dtype, normed):
    assert_rotates(dtype, heads=4, kv_heads=2, dim=16, normed=normed)


def test_heads_of_odd_sizes_in_more_than_one_program():
    torch.manual_seed(0)
    assert_rotates(torch.float32, heads=9, kv_heads=3, dim=20, normed=True)


def test_rotate_and_store_is_exact_in_float32():
    torch.manual_seed(0)
    qkv, angles, slots = torch.randn(2, 4 * 8), torch.randn(2, 4), torch.tensor([1, 0])
    ours, theirs = (LayerKV(*torch.zeros(2, 2, 1, 8)) for _ in range(2))
    query = fused.rotate_and_store(qkv, None, (angles.cos(), angles.sin()), slots, ours)
    assert torch.equal(query, plain.rotate_and_store(qkv, None, (angles.cos(), angles.sin()), slots, theirs))
    assert torch.equal(ours.keys, theirs.keys)
    assert torch.equal(ours.values, theirs.values)


def test_a_quarter_turn_swaps_the_halves_of_queries_and_keys_alone():
    qkv = torch.tensor([[1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]])
    kv = LayerKV(*torch.zeros(2, 2, 1, 4))
    query = fused.rotate_and_store(qkv, None, (torch.zeros(1, 2), torch.ones(1, 2)), torch.tensor([1]), kv)
    assert query.tolist() == [[[-3, -4, 1, 2]]]
    assert kv.keys.tolist() == [[[0, 0, 0, 0]], [[-7, -8, 5, 6]]]
    assert kv.values.tolist() == [[[0, 0, 0, 0]], [[9, 10, 11, 12]]]


def test_keys_and_values_that_share_their_slots():
    torch.manual_seed(0)
    pool = torch.zeros(5, 2, 1, 8)
    qkv, angles = torch.randn(2, 3 * 8), torch.zeros(2, 4)
    kv = LayerKV(pool[:, 0], pool[:, 1])
    fused.rotate_and_store(qkv, None, (angles.cos(), angles.sin()), torch.tensor([4, 2]), kv)
    assert torch.equal(pool[[4, 2]].flatten(1), qkv[:, 8:])
    assert not pool[[0, 1, 3]].any()


# ---------------------------------------------------------------------------------------------- nothing to compute


def test_no_tokens():
    weight, kv = torch.ones(8), LayerKV(*torch.zeros(2, 2, 1, 8))
    none = torch.empty(0, 8)
    assert fused.rms_norm(none, weight, EPS).shape == (0, 8)
    assert fused.add_rms_norm(none, none.clone(), weight, EPS).shape == (0, 8)
    assert fused.silu_mul(torch.empty(0, 16)).shape == (0, 8)
    rotary = torch.empty(0, 4), torch.empty(0, 4)
    query = fused.rotate_and_store(torch.empty(0, 24), None, rotary, torch.empty(0, dtype=torch.int64), kv)
    assert query.shape == (0, 1, 8)


# --------------------------------------------------------------------------------------------------- wide grid


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 64, 576, 4096, 5120, 16384])
def test_norms_of_all_widths(dtype, width):
    x, residual, weight = (torch.randn(5, width).to(dtype) for _ in range(3))
    assert_agree(fused.rms_norm(x, weight[0], EPS), plain.rms_norm(x, weight[0], EPS))
    ours, theirs = residual.clone(), residual.clone()
    assert_agree(fused.add_rms_norm(x, ours, weight[0], EPS), plain.add_rms_norm(x, theirs, weight[0], EPS))
    assert_agree(ours, theirs, least=0)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 1023, 1024, 1025, 14336])
def test_activations_of_all_widths(dtype, width):
    gate_up = 8 * torch.randn(3, 2 * width).to(dtype)
    assert_agree(fused.silu_mul(gate_up), plain.silu_mul(gate_up))


@pytest.mark.slow
@pytest.mark.parametrize("normed", [False, True], ids=["plain", "normed"])
@pytest.mark.parametrize("dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("heads", [(32, 8), (9, 3), (8, 1), (1, 1), (12, 12)], ids=str)
def test_all_layouts_of_heads(dtype, heads, dim, normed):
    assert_rotates(dtype, *heads, dim, normed)
