"""Linear layers that hold their weights in 8 or 4 bits, and how far those are from the weights as stored.

Activations stay as they are: a number is widened to bfloat16, exactly, when it is multiplied. What a weight becomes is
computed here in plain torch; ``quantized_tiles`` says how it is laid out for the kernel.

Measured on one core of an AMD EPYC against bfloat16 (see ``linear``), weights that come from memory, as quick as:

- int8: 1 row 2.5 to 2.7 times, 4 rows 1.2 to 2.0, 8 rows 0.8 to 1.1, 16 rows 0.9 to 1.0, 128 rows 0.97 to 1.0;
- int4: 1 row 3.5 to 4.9 times, 4 rows 1.6 to 2.5, 8 rows 0.9 to 1.2, 16 rows 1.0 to 1.2, 128 rows 0.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sgframe_cpu.attention import element_of
from sgframe_cpu.linear import CLAIM
from sgframe_cpu.linear_kernels import ROW_GROUP
from sgframe_cpu.quantized_kernels import group_totals, quantized_linear
from sgframe_cpu.team import Team
from sgframe_cpu.vectors import LANES

_SLICE = 64 * LANES
"""Columns that are quantized at once: what that takes in float32 is a part of a large layer's weight."""
_TOTALS_GRAIN = 8


@dataclass(frozen=True, slots=True)
class Format:
    """How weights are held. ``group`` inner elements share a scale; 0 is a whole row. ``depth`` of them stand in a vector,
    as numbers of the dtype ``number`` (to the kernel)."""

    name: str
    number: type
    depth: int
    group: int = 0

    @property
    def multiple(self) -> int:
        """Of which the inner size must be one."""
        return self.group or self.depth

    def fits(self, weight: Tensor) -> bool:
        """Whether ``weight`` [out, in] has whole groups."""
        return weight.shape[1] % self.multiple == 0

    def nbytes(self, weight: Tensor) -> int:
        """Of ``weight`` [out, in] in this format."""
        return prod(self.shape(*weight.shape)) * 4

    def groups(self, inner: int) -> int:
        return inner // self.group if self.group else 1

    def shape(self, columns: int, inner: int) -> tuple[int, int, int]:
        """Blocks, vectors in each, words in each."""
        return -(-columns // LANES), self.groups(inner) + inner // self.depth, LANES


INT8 = Format("int8", np.int8, depth=4)
"""Symmetric: numbers from -127 to 127, no offset."""
INT4 = Format("int4", np.uint8, depth=8, group=32)
"""Numbers from 0, which is the least of the group, to 15."""


class Quantized(NamedTuple):
    """A weight is scale · number + offset: numbers [out, groups, group] int32, the others [out, groups, 1] bfloat16."""

    scales: Tensor
    offsets: Tensor
    numbers: Tensor

    def weight(self) -> Tensor:
        """[out, in] float32."""
        return torch.addcmul(self.offsets.float(), self.scales.float(), self.numbers.float()).flatten(1)


def quantize(weight: Tensor, form: Format) -> Quantized:
    """``weight`` [out, in] to the nearest numbers, by scales that reach from the largest to the smallest of a group."""
    grouped = weight.float().unflatten(1, (form.groups(weight.shape[1]), -1))
    if form is INT8:
        least, most = -127, 127
        scales = (grouped.abs().amax(2, keepdim=True) / most).bfloat16()
        offsets = torch.zeros_like(scales)
    else:
        least, most = 0, 15
        offsets = grouped.amin(2, keepdim=True).bfloat16()
        scales = ((grouped.amax(2, keepdim=True) - offsets) / most).bfloat16()
    steps = torch.where(scales == 0, 1, scales.float())
    return Quantized(scales, offsets, ((grouped - offsets) / steps).round_().clamp_(least, most).int())


def pack(quantized: Quantized, form: Format) -> np.ndarray:
    """As the kernel reads it: words [blocks, vectors, LANES]. The columns must fill their blocks."""
    scales, offsets, numbers = (each.unflatten(0, (-1, LANES)) for each in quantized)
    words = (_bits(offsets) << 16) | _bits(scales)  # [blocks, LANES, groups, 1]
    packed = torch.cat((words.transpose(1, 3).transpose(1, 2), _PACK[form.name](numbers)), dim=2)
    return packed.flatten(1, 2).numpy().view(np.uint32)


def _bits(values: Tensor) -> Tensor:
    return values.view(torch.int16).int() & 0xFFFF


def _pack_int8(numbers: Tensor) -> Tensor:
    """[blocks, LANES, groups, group] as int32 [blocks, groups, vectors, LANES]."""
    deep = numbers.to(torch.int8).unflatten(3, (-1, INT8.depth))
    flat: Tensor = deep.permute(0, 2, 3, 4, 1).flatten(3).contiguous()
    return flat.view(torch.int32)


def _pack_int4(numbers: Tensor) -> Tensor:
    """The same."""
    shifts = torch.tensor([4 * (place // 2) + 16 * (place % 2) for place in range(INT4.depth)], dtype=torch.int32)
    words: Tensor = (numbers.unflatten(3, (-1, INT4.depth)) << shifts).sum(4, dtype=torch.int32)
    return words.permute(0, 2, 3, 1)


_PACK = {INT8.name: _pack_int8, INT4.name: _pack_int4}


class QuantizedLinear:
    """[…, in] → […, out] by ``weight`` [out, in] in the format ``form``; the weight is no longer needed afterwards."""

    def __init__(self, weight: Tensor, bias: Tensor | None, team: Team, form: Format) -> None:
        self._columns, self._inner = weight.shape
        self._team, self._form = team, form
        blocks, *block = form.shape(*weight.shape)
        self._weight = team.arena.bytes(blocks * prod(block) * 4).view(np.uint32).reshape(blocks, *block)
        self._bias = torch.zeros(blocks * LANES)
        if bias is not None:
            self._bias[: self._columns] = bias
        self.difference = self._fill(weight)
        """Of the weights from those as stored: root mean square, relative to theirs."""

    def _fill(self, weight: Tensor) -> float:
        squares = errors = 0.0
        for index, part in enumerate(weight.split(_SLICE)):
            padded = torch.nn.functional.pad(part.float(), (0, 0, 0, -len(part) % LANES))
            quantized = quantize(padded, self._form)
            first = index * _SLICE // LANES
            self._weight[first : first + len(padded) // LANES] = pack(quantized, self._form)
            squares += float(padded.square().sum())
            errors += float((quantized.weight() - padded).square_().sum())
        return sqrt(errors / squares) if squares else 0.0

    def __call__(self, x: Tensor) -> Tensor:
        x, tokens = x.contiguous(), x.numel() // self._inner
        output = self._team.empty(*x.shape[:-1], self._columns, like=x)
        totals = self._totals(x, tokens) if self._form is INT4 else None
        groups = self._form.groups(self._inner)
        self._team.run(
            quantized_linear(element_of(x), self._form.number),
            tokens,
            *(x.data_ptr(), self._weight.ctypes.data, self._bias.data_ptr(), output.data_ptr()),
            *(0 if totals is None else totals.data_ptr(), self._team.tokens),
            *(self._inner, self._columns, groups, self._inner // self._form.depth // groups),
            unit=ROW_GROUP,
            times=len(self._weight),
            grain=max(1, CLAIM // self._weight[0].nbytes),
        )
        return output

    def _totals(self, x: Tensor, tokens: int) -> Tensor:
        groups = self._form.groups(self._inner)
        totals = self._team.empty(tokens, groups, like=self._bias)
        arguments = x.data_ptr(), totals.data_ptr(), groups, self._form.group
        self._team.run(group_totals(element_of(x)), tokens, *arguments, grain=_TOTALS_GRAIN)
        return totals
