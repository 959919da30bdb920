"""Each fused operation agrees with its plain version, serially and on several threads."""

from __future__ import annotations

import pytest
import torch

from sgframe_cpu import CpuSettings
from sgframe_cpu.executor import NumbaCpuOps, TorchCpuOps
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import QKNorm

EPS = 1e-6
DIM = 16
HEADS, KV_HEADS = 4, 2

fused, plain = NumbaCpuOps(CpuSettings(threads=2)), TorchCpuOps(CpuSettings())


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def dtype(request):
    torch.manual_seed(0)
    return request.param


@pytest.fixture(params=[3, 700], ids=["serial", "threads"])
def tokens(request):
    return request.param


def close(ours, theirs):
    tolerance = 1e-5 if theirs.dtype == torch.float32 else 2**-6
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def test_rms_norm(dtype, tokens):
    x, weight = torch.randn(tokens, 64).to(dtype), torch.randn(64).to(dtype)
    close(fused.rms_norm(x, weight, EPS), plain.rms_norm(x, weight, EPS))


def test_rms_norm_of_a_part_of_each_row(dtype, tokens):
    x, weight = torch.randn(tokens, 100).to(dtype)[:, 20:84], torch.randn(64).to(dtype)
    close(fused.rms_norm(x, weight, EPS), plain.rms_norm(x, weight, EPS))


def test_add_rms_norm_adds_in_place(dtype, tokens):
    x, residual, weight = (
        torch.randn(tokens, 64).to(dtype),
        torch.randn(tokens, 64).to(dtype),
        torch.randn(64).to(dtype),
    )
    ours, theirs = residual.clone(), residual.clone()
    close(fused.add_rms_norm(x, ours, weight, EPS), plain.add_rms_norm(x, theirs, weight, EPS))
    close(ours, theirs)


def test_silu_mul(dtype, tokens):
    gate_up = 30 * torch.randn(tokens, 192).to(dtype)
    close(fused.silu_mul(gate_up), plain.silu_mul(gate_up))


def test_silu_mul_at_the_ends_of_the_range():
    gate_up = torch.tensor([[-1e4, -200.0, -89.0, 0.0, 89.0, 1e4, torch.nan, 1.0] + [1.0] * 8])
    ours, theirs = fused.silu_mul(gate_up), plain.silu_mul(gate_up)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("normed", [False, True])
def test_rotate_and_store(dtype, tokens, normed):
    qkv = torch.randn(tokens, (HEADS + 2 * KV_HEADS) * DIM).to(dtype)
    norm = QKNorm(torch.randn(DIM).to(dtype), torch.randn(DIM).to(dtype), EPS) if normed else None
    angles = torch.randn(tokens, DIM // 2)
    rotary, slots = (angles.cos(), angles.sin()), torch.randperm(2 * tokens)[:tokens]
    ours, theirs = (LayerKV(*torch.zeros(2, 2 * tokens, KV_HEADS, DIM, dtype=dtype)) for _ in range(2))
    close(
        fused.rotate_and_store(qkv.clone(), norm, rotary, slots, ours),
        plain.rotate_and_store(qkv.clone(), norm, rotary, slots, theirs),
    )
    close(ours.keys, theirs.keys)
    close(ours.values, theirs.values)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 5, 130])
def test_packed_linear_is_the_same_linear_layer(tokens, bias):
    torch.manual_seed(0)
    weight, x = torch.randn(48, 32).bfloat16(), torch.randn(tokens, 32).bfloat16()
    offset = torch.randn(48).bfloat16() if bias else None
    expected = torch.nn.functional.linear(x, weight, offset)
    close(plain.linear(weight.clone(), offset)(x), expected)
