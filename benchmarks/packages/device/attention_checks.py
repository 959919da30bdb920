"""Attention kernels against their reference, over a grid of heads, number formats, batches, pages, windows and softcaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from device.cases import make_kv, make_query, make_step
from device.deviation import deviation
from device.kernel_ops import KernelOps, PlainOps
from device.rows import Report, checked
from device.target import Heads, Target
from sgframe_torch.ops import DeviceOps


class Batch(NamedTuple):
    """Tokens that each row computes, and those that it has cached."""

    counts: tuple[int, ...]
    cached: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of ``batches``, ``pages`` and ``limits`` (window and softcap, 0 for none)."""

    heads: Heads
    dtype: torch.dtype
    batches: Sequence[Batch]
    pages: Sequence[int] = (1, 16)
    limits: Sequence[tuple[int, float]] = ((0, 0.0),)

    def __str__(self) -> str:
        return f"{self.heads}, {str(self.dtype).removeprefix('torch.')}"

    def __iter__(self) -> Iterator[tuple[Batch, int, int, float]]:
        for batch in self.batches:
            for page_size in self.pages:
                for window, softcap in self.limits:
                    yield batch, page_size, window, softcap


BATCHES = (
    Batch((1,) * 5, (0, 1, 63, 700, 4096)),
    Batch((1, 17, 130, 300), (0,) * 4),
    Batch((5, 64, 129), (3, 1000, 257)),
    Batch((1, 33, 1, 128, 2), (900, 0, 5, 64, 2047)),
    Batch((1,) * 70, tuple(range(0, 1400, 20))),
)
DRY_BATCHES = (Batch((1, 1, 1), (0, 6, 20)), Batch((1, 5, 9), (11, 0, 3)))
BOUNDED = ((100, 0.0), (0, 30.0), (128, 50.0))
FULL_GRIDS = {
    "common": (
        Grid(Heads(32, 8, 128, 128), torch.bfloat16, BATCHES, limits=((0, 0.0), *BOUNDED)),
        Grid(Heads(32, 8, 128, 128), torch.float16, BATCHES),
    ),
    "float32": (
        Grid(Heads(32, 8, 128, 128), torch.float32, BATCHES, limits=((0, 0.0), *BOUNDED)),
        Grid(Heads(9, 3, 64, 64), torch.float32, BATCHES),
    ),
    "heads": (
        Grid(Heads(9, 3, 64, 64), torch.bfloat16, BATCHES),
        Grid(Heads(8, 8, 64, 64), torch.bfloat16, BATCHES),
        Grid(Heads(16, 1, 128, 128), torch.bfloat16, BATCHES),
        Grid(Heads(12, 4, 80, 80), torch.bfloat16, BATCHES),
        Grid(Heads(16, 4, 96, 96), torch.bfloat16, BATCHES),
        Grid(Heads(8, 4, 256, 256), torch.bfloat16, BATCHES, limits=((0, 0.0), (100, 50.0))),
        Grid(Heads(8, 2, 192, 128), torch.bfloat16, BATCHES),
    ),
}
DRY_GRIDS = {
    "common": (Grid(Heads(4, 2, 16, 16), torch.bfloat16, DRY_BATCHES, pages=(4,)),),
    "float32": (Grid(Heads(4, 2, 16, 16), torch.float32, DRY_BATCHES, limits=((0, 0.0), (5, 3.0))),),
    "heads": (Grid(Heads(3, 1, 24, 16), torch.bfloat16, DRY_BATCHES, pages=(1,)),),
}


def common(target: Target, report: Report) -> None:
    """The number formats and heads that most models have."""
    _check("common", target, report)


def float32(target: Target, report: Report) -> None:
    """The number format in which whatever is wrong shows."""
    _check("float32", target, report)


def heads(target: Target, report: Report) -> None:
    """Other numbers and sizes of heads."""
    _check("heads", target, report)


def _check(name: str, target: Target, report: Report) -> None:
    device = torch.device(target.device)
    kernels, reference = KernelOps(device), PlainOps(device)
    for grid in (DRY_GRIDS if target.dry else FULL_GRIDS)[name]:
        faults = [fault for case in grid if (fault := fault_of(kernels, reference, grid, *case))]
        report(checked(str(grid), "; ".join(faults[:2]), f"{len(list(grid))} cases"))


def fault_of(
    kernels: DeviceOps,
    reference: DeviceOps,
    grid: Grid,
    batch: Batch,
    page_size: int,
    window: int,
    softcap: float,
) -> str:
    """In what the kernels differ from the reference in one case; empty if in nothing that matters."""
    torch.manual_seed(0)
    step = make_step(batch.counts, batch.cached, page_size, reference.device)
    kv = make_kv(step, grid.heads, grid.dtype, page_size)
    query = make_query(step, grid.heads, grid.dtype)
    arguments = query, kv, step, grid.heads.key_dim**-0.5, window, softcap
    try:
        kernels.begin(step)
        fault = deviation(kernels.attention(*arguments), reference.attention(*arguments))
    except Exception as error:  # of this case alone, if the device still answers
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
    case = f"{batch.counts[:5]} after {batch.cached[:5]}, page {page_size}, window {window}, softcap {softcap:g}"
    return f"{fault} ({case})" if fault else ""
