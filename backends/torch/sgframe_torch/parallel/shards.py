"""Which part of each weight is a rank's own: a plan says how the modules of a model are divided, a Sharding what comes of it
for one rank. Knows names and shapes, no tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sgframe.errors import ModelError


class Style(StrEnum):
    """How a module is divided, by the names that transformers has for it in ``base_model_tp_plan``.

    Column-parallel layers have some of the outputs each, row-parallel ones some of the inputs: their outputs are partial
    sums (Shoeybi et al. 2019, Megatron-LM).
    """

    COLUMNS = "colwise"
    GATHERED_COLUMNS = "colwise_gather_output"
    """The outputs are then laid side by side; their number need not divide."""
    KV_HEADS = "kv_heads"
    """By columns, but at least a whole head: several ranks have the same one if there are more ranks than heads."""
    ROWS = "rowwise"
    SPLIT_ROWS = "rowwise_split_input"
    """The inputs come whole, and each rank takes its own."""
    VOCABULARY = "embedding_rowwise"
    """An embedding of some of the tokens; their number need not divide."""


Plan = Mapping[str, Style]
"""Styles by the names of modules, with ``*`` for the number of a layer. Modules without one are whole on every rank."""


class Cut(NamedTuple):
    """The entries ``start … stop`` of a tensor along ``dim``; those beyond its end are zeros."""

    dim: int
    start: int
    stop: int


def wildcard(name: str) -> str:
    """``name`` with ``*`` for the number of its layer."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)


@dataclass(frozen=True, slots=True)
class Sharding:
    """How ``size`` ranks divide a model with ``kv_heads`` KV heads by ``plan``, as ``rank`` sees it."""

    plan: Plan
    kv_heads: int
    rank: int
    size: int

    def style(self, module: str) -> Style | None:
        """The style of ``module``, such as ``model.layers.3.mlp.up_proj``; None if it is whole on every rank."""
        return self.plan.get(wildcard(module))

    def cut(self, weight: str, shape: Sequence[int]) -> Cut | None:
        """This rank's part of the tensor ``weight`` of ``shape``; None for all of it."""
        if self.size == 1:
            return None
        module, _, kind = weight.rpartition(".")
        match self.style(module):
            case Style.COLUMNS | Style.GATHERED_COLUMNS | Style.VOCABULARY:
                return self._share(0, shape[0])
            case Style.KV_HEADS:
                return self._heads(shape[0])
            case Style.ROWS | Style.SPLIT_ROWS if kind == "bias":
                return None if self.rank == 0 else Cut(0, 0, 0)  # the sum over ranks is to hold it once
            case Style.ROWS | Style.SPLIT_ROWS:
                return self._share(1, shape[1])
        return None

    def _share(self, dim: int, length: int) -> Cut:
        share = -(-length // self.size)
        return Cut(dim, self.rank * share, (self.rank + 1) * share)

    def _heads(self, length: int) -> Cut:
        per_head = length // self.kv_heads
        first, count = self.rank * self.kv_heads // self.size, max(1, self.kv_heads // self.size)
        return Cut(0, first * per_head, (first + count) * per_head)


@dataclass(frozen=True, slots=True)
class Division:
    """The numbers that ranks divide: heads (0 if they need not be divided), and other ``widths`` by name."""

    heads: int
    kv_heads: int
    widths: Mapping[str, int]

    def check(self, size: int) -> None:
        """Raises ModelError, with the numbers and what would do, when ``size`` ranks cannot."""
        if reason := self._obstacle(size):
            most = max(self.heads, *self.widths.values())
            sizes = ", ".join(str(other) for other in range(1, most + 1) if not self._obstacle(other))
            raise ModelError(f"{size} ranks cannot divide this model: {reason}; choose a tp_size of {sizes}")

    def _obstacle(self, size: int) -> str:
        if self.heads % size:
            return f"its {self.heads} attention heads (with {self.kv_heads} KV heads) are not a multiple of {size}"
        if self.kv_heads % size and size % self.kv_heads:
            return f"neither of its {self.kv_heads} KV heads and {size} ranks is a multiple of the other"
        for name, width in self.widths.items():
            if width % size:
                return f"its {name}, {width}, is not a multiple of {size}"
        return ""
