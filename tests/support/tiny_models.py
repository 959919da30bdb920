"""Tiny random models of each architecture, saved as any checkpoint is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from sgframe.interfaces.source import Checkpoint

CONTEXT = 128

_COMMON = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "head_dim": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.3,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
transformers.logging.disable_progress_bar()
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**_COMMON, tie_word_embeddings=True),
    "llama-scaled-rope": lambda: transformers.LlamaConfig(
        **_COMMON, rope_parameters=_LLAMA3, attention_bias=True, mlp_bias=True
    ),
    "qwen2": lambda: transformers.Qwen2Config(**_COMMON),
    "qwen2-windows": lambda: transformers.Qwen2Config(
        **_COMMON, use_sliding_window=True, sliding_window=6, max_window_layers=1
    ),
    "qwen3": lambda: transformers.Qwen3Config(**_COMMON | {"num_attention_heads": 6}),
    "mistral": lambda: transformers.MistralConfig(**_COMMON, sliding_window=7),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **_COMMON | {"num_hidden_layers": 6, "tie_word_embeddings": False}, sliding_window=5, query_pre_attn_scalar=16
    ),
    "gemma2": lambda: transformers.Gemma2Config(
        **_COMMON, tie_word_embeddings=False, sliding_window=9, query_pre_attn_scalar=16, attn_logit_softcapping=2.0
    ),
}


def save_model(config: Any, folder: Path, name: str = "tiny") -> Checkpoint:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter_name, parameter in model.named_parameters():
        if parameter.ndim == 1:  # norms and biases, which would otherwise start as all ones or zeros
            torch.nn.init.normal_(parameter, mean=1.0 if "norm" in parameter_name else 0.0, std=0.3)
    model.save_pretrained(folder)
    return Checkpoint(name, str(folder), config.max_position_embeddings, config.vocab_size, ())
