"""Rank processes and tiny models for every test of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import tiny_models
import transformers
from rank_processes import RankProcesses

_COMMON = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_NINE_HEADS = {"hidden_size": 72, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True}
_EVERY_HEAD = {name: value for name, value in _COMMON.items() if name != "num_key_value_heads"}
_SMOLLM2 = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
CONFIGS: dict[str, Callable[[], Any]] = {
    "nine-heads": lambda: transformers.LlamaConfig(**_COMMON | _NINE_HEADS),  # as SmolLM2-135M has
    "smollm2": lambda: transformers.LlamaConfig(**_COMMON | _SMOLLM2),
    "odd-inner": lambda: transformers.LlamaConfig(**_COMMON | {"intermediate_size": 98}),
    "odd-inner-gemma": lambda: transformers.Gemma2Config(**_COMMON | {"intermediate_size": 98}),
    "odd-vocabulary": lambda: transformers.LlamaConfig(**_COMMON | {"vocab_size": 157}),
    "odd-tied-vocabulary": lambda: transformers.Gemma2Config(
        **_COMMON | {"vocab_size": 157, "head_dim": 16, "tie_word_embeddings": True}
    ),
    "phi3": lambda: transformers.Phi3Config(**_COMMON),
    "olmo2": lambda: transformers.Olmo2Config(**_COMMON),
    "cohere": lambda: transformers.CohereConfig(**_COMMON, tie_word_embeddings=True),
    "granite": lambda: transformers.GraniteConfig(**_COMMON, attention_bias=True, mlp_bias=True),
    "starcoder2": lambda: transformers.Starcoder2Config(**_COMMON, use_bias=True),
    "gpt-neox": lambda: transformers.GPTNeoXConfig(**_EVERY_HEAD),
    "qwen3-moe": lambda: transformers.Qwen3MoeConfig(**_COMMON),
    "stablelm": lambda: transformers.StableLmConfig(**_COMMON),
}


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankProcesses]:
    """``ranks(size, function, *args)``: what ``function(Ranks, *args)`` returns in each of ``size`` processes."""
    processes = RankProcesses()
    yield processes
    processes.close()


@pytest.fixture(scope="session")
def config() -> Callable[[str], Any]:
    """``config(kind)``: the config of that name, here or in tiny_models."""
    return lambda kind: (tiny_models.CONFIGS | CONFIGS)[kind]()


@pytest.fixture(scope="session")
def saved(config: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """``saved(kind)``: the folder of a random model of that config."""
    return cache(lambda kind: tiny_models.save_model(config(kind), tmp_path_factory.mktemp(kind)).folder)
