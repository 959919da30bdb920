"""Model code, and which of it serves a given config: our own where there is one, else transformers' modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from sgframe_torch.kv import KVShape, LayerKV
from sgframe_torch.models import llama
from sgframe_torch.ops import DeviceOps
from sgframe_torch.parallel.group import Group
from sgframe_torch.rows import StepInputs


class Model(Protocol):
    """A causal language model on one device."""

    kv_shapes: list[KVShape]
    weight_bytes: int
    packed_bytes: int
    """Bytes of second copies of weights that a kernel wants in its own layout."""
    recordable: bool
    """Whether all that ``hidden`` computes is done by DeviceOps, in an order that depends on nothing."""

    def hidden(self, step: StepInputs, kv: list[LayerKV]) -> Tensor:
        """Compute the step and write its KV; the last hidden state [T, hidden] of every token."""

    def logits(self, hidden: Tensor) -> Tensor:
        """[n, hidden] → [n, vocab]."""


def load_model(
    folder: Path,
    config: Any,
    dtype: torch.dtype,
    ops: DeviceOps,
    group: Group,
    progress: Callable[[str, int, int], None],
) -> Model:
    """Load this rank's part of the checkpoint in ``folder``, whose parsed config.json is ``config``. Raises ModelError."""
    if llama.supports(config):
        return llama.load(folder, config, dtype, ops, group, progress)
    from sgframe_torch.models import transformers_model  # noqa: PLC0415 (half of transformers: 1.3 s and 150 MB)

    return transformers_model.load(folder, config, dtype, ops, group, progress)


def check_ranks(config: Any, size: int) -> None:
    """Raises ModelError, with the numbers, when ``size`` ranks cannot divide the model of ``config``; reads no weights."""
    if llama.supports(config):
        llama.check_ranks(config, size)
    elif size > 1:
        from sgframe_torch.models import transformers_model  # noqa: PLC0415 (as above)

        transformers_model.check_ranks(config, size)
