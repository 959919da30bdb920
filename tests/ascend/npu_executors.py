"""Tiny models, and executors that run them on the double."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from npu_double import double
from torch import Tensor

from sgframe.interfaces.source import Checkpoint
from sgframe_ascend import AscendSettings
from sgframe_ascend.ops import AscendOps
from sgframe_torch.executor import TorchExecutor
from sgframe_torch.ops import Linear

_COMMON = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.15,
}
CONFIGS: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: transformers.Qwen3Config(**_COMMON, head_dim=64),
    "mistral": lambda: transformers.MistralConfig(**_COMMON, head_dim=16, sliding_window=7),
    "gemma2": lambda: transformers.Gemma2Config(
        **_COMMON, head_dim=16, tie_word_embeddings=False, sliding_window=9, query_pre_attn_scalar=16
    ),
}


def save_model(kind: str, folder: Path) -> Checkpoint:
    """A random model, kept in float16 so that every dtype starts from the same weights."""
    config = CONFIGS[kind]()
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=1.0 if "norm" in name else 0.0, std=0.3)
    model.half().save_pretrained(folder)
    return Checkpoint(kind, str(folder), config.max_position_embeddings, config.vocab_size, ())


class ExactOps(AscendOps):
    """The double's device, whose linear layers are computed in float64 and rounded once: what one row gives does not
    depend, to the last bit, on which others are computed with it, as the kit asks of a device in half precision."""

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Linear:
        wide, wide_bias = weight.double(), None if bias is None else bias.double()
        return lambda x: torch.nn.functional.linear(x.double(), wide, wide_bias).to(weight.dtype)


def executor(page_size: int = 128) -> TorchExecutor:
    """A fresh executor on the double, not loaded."""
    return TorchExecutor(ExactOps(AscendSettings(page_size=page_size), double(), "cpu"))
