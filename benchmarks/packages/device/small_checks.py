"""The small kernels against their references: norms, rotation and KV writes, activation, masks, drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from device.deviation import deviation
from device.kernel_ops import KernelOps, PlainOps
from device.rows import Report, checked
from device.target import Heads, Target
from sgframe_torch.drawing import Draws
from sgframe_torch.kv import LayerKV
from sgframe_torch.ops import DeviceOps, QKNorm

EPS = 1e-5
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NEAR_BORDER = 1e-5
"""What was drawn must be what some uniform number as near as that to the one given draws by the reference."""
STRAY = 0.005
"""The share of rows in which a token at the border of a nucleus may fall on the other side, which moves what is drawn."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What the checks go over. ``samplings`` are top-k, top-p, min-p and temperature."""

    dtypes: Sequence[torch.dtype]
    tokens: Sequence[int]
    widths: Sequence[int]
    heads: Sequence[Heads]
    vocabularies: Sequence[int]
    sampled: int
    samplings: Sequence[tuple[int, float, float, float]]


SAMPLINGS = ((0, 1.0, 0.0, 1.0), (1, 1.0, 0.0, 1.0), (50, 1.0, 0.0, 0.7), (0, 0.9, 0.0, 1.0), (200, 0.95, 0.05, 1.3))
FULL = Shapes(
    DTYPES,
    (1, 7, 64, 513),
    (64, 576, 4096, 5120, 8192),
    (Heads(32, 8, 128, 128), Heads(9, 3, 64, 64), Heads(12, 4, 80, 80), Heads(8, 1, 256, 256)),
    (331, 32000, 128256, 256000),
    256,
    SAMPLINGS,
)
DRY = Shapes((torch.float32, torch.bfloat16), (1, 3), (24, 64), (Heads(4, 2, 16, 16),), (331,), 8, SAMPLINGS)


def run(target: Target, report: Report) -> None:
    torch.manual_seed(0)
    device = torch.device(target.device)
    shapes = DRY if target.dry else FULL
    checks: dict[str, Callable[[DeviceOps, DeviceOps, Shapes], list[str]]] = {
        "rms norm": rms_norm,
        "add and rms norm": add_rms_norm,
        "SiLU · up": silu_mul,
        "rotate and store": rotate_and_store,
        "mask": apply_mask,
        "draw": draw,
    }
    for name, check in checks.items():
        try:
            faults = check(KernelOps(device), PlainOps(device), shapes)
        except Exception as error:  # of this kernel alone, if the device still answers
            faults = [f"{type(error).__name__}: {error}".splitlines()[0]]
        report(checked(name, "; ".join(list(filter(None, faults))[:2])))


def rms_norm(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    faults = []
    for dtype, tokens, width in _combinations(shapes):
        x, weight = _random(reference, dtype, tokens, width), _random(reference, dtype, width)
        faults.append(deviation(kernels.rms_norm(x, weight, EPS), reference.rms_norm(x, weight, EPS)))
    return faults


def add_rms_norm(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    faults = []
    for dtype, tokens, width in _combinations(shapes):
        x, weight = _random(reference, dtype, tokens, width), _random(reference, dtype, width)
        ours = _random(reference, dtype, tokens, width)
        theirs = ours.clone()
        found, expected = kernels.add_rms_norm(x, ours, weight, EPS), reference.add_rms_norm(x, theirs, weight, EPS)
        faults += [deviation(found, expected), deviation(ours, theirs)]
    return faults


def silu_mul(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    faults = []
    for dtype, tokens, width in _combinations(shapes):
        gate_up = _random(reference, dtype, tokens, 2 * width)
        faults.append(deviation(kernels.silu_mul(gate_up), reference.silu_mul(gate_up)))
    return faults


def rotate_and_store(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    """Queries, and the whole of the KV: what is not written to must stay."""
    faults = []
    for dtype in shapes.dtypes:
        for heads in shapes.heads:
            for tokens in shapes.tokens:
                dim = heads.key_dim
                qkv = _random(reference, dtype, tokens, (heads.query + 2 * heads.kv) * dim)
                norm = QKNorm(_random(reference, dtype, dim), _random(reference, dtype, dim), EPS)
                angles = _random(reference, torch.float32, tokens, dim // 2) * 100
                slots = torch.randperm(2 * tokens, device=reference.device)[:tokens]
                for norms in (None, norm):
                    pool = _random(reference, dtype, 2, 2 * tokens, heads.kv, dim)
                    ours, theirs = LayerKV(*pool), LayerKV(*pool.clone())
                    rotary = angles.cos(), angles.sin()
                    found = kernels.rotate_and_store(qkv, norms, rotary, slots, ours)
                    expected = reference.rotate_and_store(qkv, norms, rotary, slots, theirs)
                    faults += [
                        deviation(one, other) for one, other in zip((found, *ours), (expected, *theirs), strict=True)
                    ]
    return faults


def apply_mask(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    faults = []
    for vocabulary in shapes.vocabularies:
        words = torch.randint(-(2**31), 2**31, (shapes.sampled, -(-vocabulary // 32)), device=reference.device).int()
        ours = _random(reference, torch.float32, shapes.sampled, vocabulary)
        theirs = ours.clone()
        kernels.apply_mask(ours, words)
        reference.apply_mask(theirs, words)
        faults.append("" if torch.equal(ours, theirs) else f"other tokens are masked, of {vocabulary}")
    return faults


def draw(kernels: DeviceOps, reference: DeviceOps, shapes: Shapes) -> list[str]:
    """Tokens lie in the order of the uniform numbers that draw them, so the numbers just below and just above the given one
    bound what it may draw."""
    faults = []
    for vocabulary in shapes.vocabularies:
        for top_k, top_p, min_p, temperature in shapes.samplings:
            n, device = shapes.sampled, reference.device
            logits = 3 * _random(reference, torch.float32, n, vocabulary)
            uniform = torch.rand(n, dtype=torch.float64, device=device)
            draws = Draws(
                torch.full((n,), temperature, device=device),
                torch.full((n,), top_k, dtype=torch.int32, device=device),
                torch.full((n,), top_p, device=device),
                torch.full((n,), min_p, device=device),
                uniform,
            )
            low, high = (
                reference.draw(logits.clone(), draws._replace(uniform=(uniform + shift).clamp(0, 1 - 1e-12)))
                for shift in (-NEAR_BORDER, NEAR_BORDER)
            )
            found = kernels.draw(logits.clone(), draws)
            stray = float(((found < low) | (found > high)).double().mean())
            sampling = f"top-k {top_k}, top-p {top_p:g}, min-p {min_p:g}"
            faults.append(f"{stray:.1%} of the tokens differ, {vocabulary} tokens, {sampling}" if stray > STRAY else "")
    return faults


def _combinations(shapes: Shapes) -> list[tuple[torch.dtype, int, int]]:
    return [(dtype, tokens, width) for dtype in shapes.dtypes for tokens in shapes.tokens for width in shapes.widths]


def _random(ops: DeviceOps, dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(shape, device=ops.device).to(dtype)
