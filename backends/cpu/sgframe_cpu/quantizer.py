"""Chooses the format of each linear layer of a model, and keeps account of what that changes."""

from __future__ import annotations

from math import sqrt

from torch import Tensor

from sgframe.errors import ModelError
from sgframe_cpu.quantized import INT4, INT8, QuantizedLinear
from sgframe_cpu.team import Team

_FORMATS = {each.name: each for each in (INT8, INT4)}


class Quantizer:
    """Makes the linear layers of one model in the format ``name``. A head, which gives the logits, is int8 in any case."""

    def __init__(self, name: str, team: Team) -> None:
        self._form, self._team = _FORMATS[name], team
        self._differences: list[float] = []
        self._shapes: list[str] = []

    def linear(self, weight: Tensor, bias: Tensor | None, head: bool) -> QuantizedLinear:
        """Raises ModelError for a ``weight`` [out, in] that has no whole groups."""
        form, shape = INT8 if head else self._form, " × ".join(map(str, weight.shape))
        if not form.fits(weight):
            raise ModelError(
                f"{form.name} weights need linear layers whose inner size is a multiple of {form.multiple}, and one is "
                f"{shape}; set cpu.weights to {'int8 or as-stored' if form is INT4 else 'as-stored'}"
            )
        layer = QuantizedLinear(weight, bias, self._team, form)
        self._differences.append(layer.difference)
        self._shapes.append(shape)
        return layer

    def packed_bytes(self, weight: Tensor, head: bool) -> int:
        """Of the layer that ``linear`` makes; 0 if it makes none."""
        form = INT8 if head else self._form
        return form.nbytes(weight) if form.fits(weight) else 0

    def note(self) -> str:
        """How far the weights are from those as stored."""
        count, worst = len(self._differences), max(self._differences)
        place = self._differences.index(worst)
        overall = sqrt(sum(each * each for each in self._differences) / count)
        return (
            f"{self._form.name}: weights differ by {overall:.2%} (root mean square of {count} linear layers; most in number "
            f"{place + 1}, {self._shapes[place]}: {worst:.2%})"
        )
