"""Several arrays in one piece of memory, so that one copy takes them to a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor


def pack(values: Sequence[np.ndarray], alignment: int, *, pin_memory: bool = False) -> Tensor:
    """uint8 [bytes] on the host: each of ``values`` from a multiple of ``alignment`` bytes on."""
    sizes = _sizes(values, alignment)
    packed = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=pin_memory)
    for part, each in zip(packed.split(sizes), values, strict=True):
        part.numpy()[: each.nbytes] = np.ascontiguousarray(each).reshape(-1).view(np.uint8)
    return packed


def unpack(packed: Tensor, values: Sequence[np.ndarray], alignment: int) -> list[Tensor]:
    """The tensors in ``packed``, wherever it is by now, which ``pack`` made of the same arguments; they share its memory."""
    parts = packed.split(_sizes(values, alignment))
    return [
        part[: each.nbytes].view(_torch_dtype(each.dtype)).view(each.shape)
        for part, each in zip(parts, values, strict=True)
    ]


def _sizes(values: Sequence[np.ndarray], alignment: int) -> list[int]:
    return [-(-each.nbytes // alignment) * alignment for each in values]


@cache
def _torch_dtype(dtype: np.dtype) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype
