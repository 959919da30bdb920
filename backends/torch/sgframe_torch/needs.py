"""What a model needs of a device's memory, before any of it is loaded; and, when that is too much, what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from sgframe.errors import ModelError
from sgframe.interfaces.backend import ExecutorSpec
from sgframe_torch.kv import MIB
from sgframe_torch.models.rope import head_dim

PROMPT_SLICE = 64
"""Most prompt positions whose logits exist at once."""
LEAST_CONTEXT = 256
"""No shorter context is proposed."""


@dataclass(frozen=True, slots=True)
class Needs:
    """One rank's share of a model of ``config``, in bytes: what it takes to serve one request of ``context`` tokens.

    ``weights`` are this rank's; ``ranks`` share the model.
    """

    spec: ExecutorSpec
    config: Any
    context: int
    dtype: torch.dtype
    ranks: int
    weights: int

    @property
    def activations(self) -> int:
        """At most, in a step."""
        hidden = self.config.hidden_size
        inner = getattr(self.config, "intermediate_size", None) or 4 * hidden
        return int(self.spec.max_step_tokens * (8 * hidden + 3 * inner // self.ranks) * self.dtype.itemsize)

    @property
    def logits(self) -> int:
        """Of the sampled rows and of a slice of a prompt, those of some rows once more, and twice as float32."""
        return int((self.spec.max_rows + PROMPT_SLICE) * self.config.vocab_size * (2 * self.dtype.itemsize + 8))

    @property
    def page_table(self) -> int:
        return self.spec.max_rows * self.context * 4

    @property
    def workspace(self) -> int:
        """What a step needs beside weights and KV, at most."""
        return self.activations + self.logits + self.page_table

    @property
    def kv(self) -> int:
        """KV as it was asked for, or of one context; an estimate by the config, which the loaded model makes exact."""
        if self.spec.kv_bytes and not self.spec.kv_slots:
            return self.spec.kv_bytes
        heads = getattr(self.config, "num_key_value_heads", None) or self.config.num_attention_heads
        per_layer = 2 * max(1, heads // self.ranks) * head_dim(self.config) * self.dtype.itemsize
        return int((self.spec.kv_slots or self.context) * self.config.num_hidden_layers * per_layer)

    @property
    def total(self) -> int:
        return self.weights + self.workspace + self.kv

    def check(self, available: int) -> None:
        """Raises ModelError, with each part and settings that would fit, when this is more than ``available`` bytes."""
        if self.total <= available:
            return
        parts = {
            "weights": self.weights,
            "activations (max_step_tokens)": self.activations,
            "logits (max_running)": self.logits,
            "page table (max_running × context_length)": self.page_table,
            "KV (context_length, kv_slots or kv_memory)": self.kv,
        }
        listed = " + ".join(f"{name} {_mib(size)}" for name, size in parts.items())
        raise ModelError(
            f"the model does not fit: {listed} = {_mib(self.total)} are needed on each rank, {_mib(available)} are "
            f"available; {self._remedy(available)}"
        )

    def _remedy(self, available: int) -> str:
        smaller = self
        while smaller.total > available and smaller != smaller.halved():
            smaller = smaller.halved()
        if smaller.total <= available:
            return f"{smaller} would fit"
        return (
            f"not even {smaller} would fit: choose a smaller model or dtype, or divide it among more ranks (tp_size), where "
            "each has memory of its own"
        )

    def halved(self) -> Needs:
        """The same with half the rows, tokens a step and KV; once those are least, with half the context."""
        spec = self.spec
        rows = max(1, spec.max_rows // 2)
        fewer = replace(
            spec,
            max_rows=rows,
            max_step_tokens=max(rows, spec.max_step_tokens // 2, 1),
            kv_slots=-(-spec.kv_slots // 2),
            kv_bytes=-(-spec.kv_bytes // 2),
        )
        if fewer != spec:
            return replace(self, spec=fewer)
        return replace(self, context=max(min(LEAST_CONTEXT, self.context), self.context // 2))

    def __str__(self) -> str:
        """The settings, as a user would write them."""
        spec = self.spec
        said = f"max_running {spec.max_rows}, max_step_tokens {spec.max_step_tokens} and context_length {self.context}"
        if spec.kv_slots:
            said += f" with kv_slots {spec.kv_slots}"
        elif spec.kv_bytes:
            said += f" with kv_memory {spec.kv_bytes}"
        return said


@contextmanager
def memory_errors(needs: Needs) -> Iterator[None]:
    """While memory is taken that ``needs`` foresees: a device that has less than it said is a ModelError, too."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is of the first kind
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "alloc" not in str(error):
            raise
        first = str(error).splitlines()[0]
        raise ModelError(
            f"the device ran out of memory while the model was loaded ({first}); {_mib(needs.total)} were foreseen for "
            f"{needs}: lower those, and see what else takes its memory"
        ) from error


def _mib(size: int) -> str:
    return f"{-(-size // MIB)} MiB"
