"""Rotary position embedding from a transformers config."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sgframe_torch.ops import DeviceOps

_DEPENDS_ON_LENGTH = frozenset({"dynamic", "longrope"})


class Rope:
    """Angles of the rotary embedding (Su et al. 2021), with the scaling that ``config.rope_parameters`` names."""

    def __init__(self, config: Any, ops: DeviceOps) -> None:
        self._ops, device = ops, ops.device
        parameters = config.rope_parameters
        self._scaling = 1.0
        if parameters["rope_type"] == "default":
            dim = head_dim(config)
            exponents = torch.arange(0, dim, 2, dtype=torch.float, device=device) / dim
            self._frequencies = 1.0 / parameters["rope_theta"] ** exponents
        else:
            from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415 (0.5 s, seldom needed)

            self._frequencies, self._scaling = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, device)

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, each [T, dim / 2] float32."""
        return self._ops.rotary(positions, self._frequencies, self._scaling)


def head_dim(config: Any) -> int:
    """The size of one attention head."""
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def context_limit(config: Any) -> int | None:
    """The longest context whose angles do not depend on the length of the sequence, or None if they never do.

    Beyond it some scalings (dynamic NTK, LongRoPE) turn all keys of a sequence as it grows, which stored keys cannot
    follow.
    """
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = parameters if "rope_type" not in parameters else {"": parameters}
    limits = [
        each.get("original_max_position_embeddings") or config.max_position_embeddings
        for each in nested.values()
        if each["rope_type"] in _DEPENDS_ON_LENGTH
    ]
    return min(limits, default=None)
