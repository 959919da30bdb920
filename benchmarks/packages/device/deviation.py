"""How far a kernel may be from its reference, by number format."""

from __future__ import annotations

import torch
from torch import Tensor

SHARE = {torch.float32: 2e-5, torch.float16: 2**-8, torch.bfloat16: 2**-5}
"""Of the largest number in the same vector: four roundings to a number format of 10 or 7 bits after the point, each by half
of the last of them, at twice the size. What is wrong in more than its roundings shows in float32."""


def deviation(found: Tensor, expected: Tensor) -> str:
    """What is wrong with ``found``, empty if it is as near to ``expected`` as its number format allows."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} {tuple(found.shape)} came, {expected.dtype} {tuple(expected.shape)} should"
    wanted = expected.double()
    allowed = SHARE[expected.dtype] * wanted.abs().amax(-1, keepdim=True)
    excess = (found.double() - wanted).abs() - allowed
    if bool((excess <= 0).all()):  # not so where anything is no number
        return ""
    worst = int(excess.nan_to_num(torch.inf).argmax())
    return f"{found.flatten()[worst]:.5g} came, {expected.flatten()[worst]:.5g} should"
