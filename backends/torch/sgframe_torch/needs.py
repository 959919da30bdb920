"""What a model needs of a device's memory, before it is loaded; and, when that is too much, what would fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe_torch.kv import MIB

PROMPT_SLICE = 64
"""Most prompt positions whose logits exist at once."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Bytes that a step needs at most beside weights and KV: ``activations`` grow with max_step_tokens, ``logits`` with
    max_running, the ``page_table`` with max_running and context_length."""

    activations: int
    logits: int
    page_table: int

    @property
    def total(self) -> int:
        return self.activations + self.logits + self.page_table


def workspace(spec: ExecutorSpec, config: Any, context: int, dtype: torch.dtype, ranks: int) -> Workspace:
    """An upper estimate for one of ``ranks`` ranks."""
    inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return Workspace(
        activations=spec.max_step_tokens * (8 * config.hidden_size + 3 * inner // ranks) * dtype.itemsize,
        logits=(spec.max_rows + PROMPT_SLICE) * config.vocab_size * (dtype.itemsize + 4),
        page_table=spec.max_rows * context * 4,
    )


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes that one rank needs before it has any KV."""

    weights: int
    workspace: Workspace

    def check(self, available: int) -> None:
        """Raises ModelError, with each part and what to lower, when this is more than ``available`` bytes."""
        needed = self.weights + self.workspace.total
        if needed <= available:
            return
        parts = {
            "weights": self.weights,
            "activations (max_step_tokens)": self.workspace.activations,
            "logits (max_running)": self.workspace.logits,
            "page table (max_running × context_length)": self.workspace.page_table,
        }
        listed = " + ".join(f"{name} {_mib(size)}" for name, size in parts.items())
        raise ModelError(
            f"the model does not fit: {listed} = {_mib(needed)} are needed on each rank, {_mib(available)} are available; "
            f"{self._remedy(available)}"
        )

    def _remedy(self, available: int) -> str:
        if self.weights >= available:
            ranks = -(-self.weights // max(available, 1)) if available > 0 else 0
            more = f", or at least {ranks} times as many ranks (tp_size), each with as much memory" if ranks else ""
            return f"the weights alone are too large: choose a smaller model or dtype{more}"
        share = (available - self.weights) / self.workspace.total
        return (
            f"the weights fit: with max_running, max_step_tokens or context_length lowered so that the rest takes "
            f"{share:.0%} of what it takes now, all does"
        )


def _mib(size: int) -> str:
    return f"{-(-size // MIB)} MiB"
