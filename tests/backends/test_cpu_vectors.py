"""Lanes are rounded to bfloat16 as torch does, by the processor or where it cannot by arithmetic."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from numba import njit, types
from numba.extending import intrinsic

from sgframe_cpu import vectors


@pytest.mark.parametrize("by", ["processor", "arithmetic"])
def test_rounding(by, monkeypatch):
    if by == "arithmetic":
        monkeypatch.setattr(vectors, "has_dot_product", lambda: False)

    @intrinsic
    def store_rounded(_, source, target):
        def generate(context, builder, signature, addresses):
            values = vectors.load(builder, addresses[0], vectors.FLOATS, 4)
            vectors.store(builder, values, addresses[1], rounded=True)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), generate

    @njit
    def run(source, target):
        store_rounded(source, target)

    tie, inf, nan = 1 + 2**-8, float("inf"), float("nan")
    values = torch.tensor(
        [0, -0.0, 1, -3.1415927, tie, tie + 2**-7, tie + 2**-20, 3e38, 3.4e38, 1e-30, inf, -inf, nan] + [0] * 3
    )
    rounded = torch.empty(16, dtype=torch.bfloat16)
    run(values.data_ptr(), rounded.data_ptr())
    torch.testing.assert_close(rounded, values.bfloat16(), atol=0, rtol=0, equal_nan=True)


_MULTIPLY = """
import torch
from sgframe_cpu.linear import PackedLinear
from sgframe_cpu.team import Team
weight, x = torch.eye(40, 64, dtype=torch.bfloat16), torch.randn(9, 64).bfloat16()
assert torch.equal(PackedLinear(weight, None, Team(1))(x), x[:, :40])
"""


@pytest.mark.slow
def test_bfloat16_is_multiplied_by_any_processor():
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    environment = os.environ | plain | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", _MULTIPLY], env=environment, check=True)
