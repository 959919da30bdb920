"""What the kernels of a step read, write and multiply at the least. Knows a model's sizes and a step's, no times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sgframe_cpu.launch import Launch
from sgframe_torch.models.rope import head_dim

ELEMENT = 2
"""Bytes, of bfloat16."""


class Work(NamedTuple):
    """Bytes from or to memory, and operations."""

    moved: float
    operations: float = 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A step: each of ``rows`` computes ``new`` tokens after ``context`` that lie in slots."""

    name: str
    rows: int
    context: int
    new: int = 1

    @property
    def tokens(self) -> int:
        return self.rows * self.new

    @property
    def keys(self) -> int:
        """Of all rows, once this step's are written."""
        return self.rows * (self.context + self.new)

    @property
    def pairs(self) -> int:
        """Of a query and a key that it sees."""
        return self.rows * (self.new * self.context + self.new * (self.new + 1) // 2)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model whose layers are all alike."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    dim: int

    @classmethod
    def of(cls, config: Any) -> Sizes:
        """By the checkpoint's own configuration."""
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        return cls(config.hidden_size, config.intermediate_size, heads, kv_heads, head_dim(config))


def kind_of(launch: Launch) -> str:
    """What it is called in a table: the kernel's name, for a linear layer with its size [out, in]."""
    name = launch.kernel.name
    if name != "linear":
        return name.replace("_", " ")
    inner, columns = _linear_size(launch)
    return f"linear {columns:,} × {inner:,}"


def work_of(launch: Launch, sizes: Sizes, shape: Shape) -> Work:
    """Of a launch in a step of ``shape``. Raises KeyError for a kernel that is not known here."""
    return _WORK[launch.kernel.name](launch, sizes, shape)


def linear_work(tokens: int, inner: int, columns: int) -> Work:
    """Of ``tokens`` rows times a weight, which is read once."""
    return Work(ELEMENT * (inner * columns + tokens * (inner + columns)), 2.0 * tokens * inner * columns)


def _linear_size(launch: Launch) -> tuple[int, int]:
    return launch.arguments[5], launch.arguments[6]  # as in the docstring of the kernel


def _linear(launch: Launch, sizes: Sizes, shape: Shape) -> Work:
    return linear_work(shape.tokens, *_linear_size(launch))


def _attention(launch: Launch, sizes: Sizes, shape: Shape) -> Work:
    keys_and_values = 2 * shape.keys * sizes.kv_heads * sizes.dim
    moved = keys_and_values + 2 * shape.tokens * sizes.heads * sizes.dim
    return Work(ELEMENT * moved, 4.0 * shape.pairs * sizes.heads * sizes.dim)


def _rows(per_token: Callable[[Sizes], int]) -> Callable[[Launch, Sizes, Shape], Work]:
    """So many elements for each token."""
    return lambda launch, sizes, shape: Work(ELEMENT * shape.tokens * per_token(sizes))


_WORK: dict[str, Callable[[Launch, Sizes, Shape], Work]] = {
    "linear": _linear,
    "attend": _attention,
    "merge": _rows(lambda sizes: sizes.heads * sizes.dim),
    "embed": _rows(lambda sizes: 2 * sizes.hidden),
    "angles": _rows(lambda sizes: 2 * sizes.dim),  # float32, a cosine and a sine for each pair
    "rms_norm": _rows(lambda sizes: 2 * sizes.hidden),
    "add_rms_norm": _rows(lambda sizes: 4 * sizes.hidden),
    "add": _rows(lambda sizes: 3 * sizes.hidden),
    "rotate_and_store": _rows(lambda sizes: 2 * (sizes.heads + 2 * sizes.kv_heads) * sizes.dim),
    "silu_mul": _rows(lambda sizes: 3 * sizes.intermediate),
}
