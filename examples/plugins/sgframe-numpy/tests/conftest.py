"""A tiny random Llama on disk, made without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from sgframe.interfaces.source import Checkpoint

VOCAB, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, DIM, CONTEXT = 160, 48, 64, 2, 4, 2, 12, 128
CONFIG = {
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}


def shapes() -> dict[str, tuple[int, ...]]:
    """Every weight's shape [out, in] under its name in a checkpoint."""
    layer = {
        "input_layernorm": (HIDDEN,),
        "self_attn.q_proj": (HEADS * DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HEADS * DIM),
        "post_attention_layernorm": (HIDDEN,),
        "mlp.gate_proj": (INNER, HIDDEN),
        "mlp.up_proj": (INNER, HIDDEN),
        "mlp.down_proj": (HIDDEN, INNER),
    }
    layers = {f"model.layers.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in layer.items()}
    return {"model.embed_tokens.weight": (VOCAB, HIDDEN), **layers, "model.norm.weight": (HIDDEN,)}


def write_model(folder: Path) -> dict[str, np.ndarray]:
    """The same model each time, in ``folder``. Returns its weights."""
    noise = np.random.default_rng(0)
    weights = {
        name: noise.normal(float(len(shape) == 1), 0.3, shape).astype(np.float32) for name, shape in shapes().items()
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights, folder / "model.safetensors")
    return weights


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    return folder, write_model(folder)


@pytest.fixture(scope="session")
def folder(model: tuple[Path, dict[str, np.ndarray]]) -> Path:
    return model[0]


@pytest.fixture(scope="session")
def weights(model: tuple[Path, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return model[1]


@pytest.fixture(scope="session")
def checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint("tiny-llama", str(folder), CONTEXT, VOCAB, ())
