"""A tiny model of random weights, made without torch: what a backend is tested with when nothing depends on the model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from sgframe.interfaces.source import Checkpoint

VOCAB, HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 160, 48, 64, 2, 4, 2, 12, 2048
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "hidden_act": "silu",
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}


def tiny_llama(folder: Path) -> Checkpoint:
    """Write a Llama of two layers and 160 tokens into ``folder``: config.json and float32 weights, the same each time.

    It has no tokenizer, and no end-of-sequence ids. The folder is made if it is not there.
    """
    noise = np.random.default_rng(0)
    weights = {
        name: noise.normal(1.0 if len(shape) == 1 else 0.0, 0.3, shape).astype(np.float32)
        for name, shape in _shapes().items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return Checkpoint("tiny-llama", str(folder), CONTEXT, VOCAB, ())


def _shapes() -> dict[str, tuple[int, ...]]:
    """Every weight's shape [out, in] under its name in a checkpoint."""
    layer = {
        "input_layernorm": (HIDDEN,),
        "self_attn.q_proj": (HEADS * HEAD_DIM, HIDDEN),
        "self_attn.k_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        "self_attn.o_proj": (HIDDEN, HEADS * HEAD_DIM),
        "post_attention_layernorm": (HIDDEN,),
        "mlp.gate_proj": (INNER, HIDDEN),
        "mlp.up_proj": (INNER, HIDDEN),
        "mlp.down_proj": (HIDDEN, INNER),
    }
    layers = {f"model.layers.{i}.{name}.weight": shape for i in range(LAYERS) for name, shape in layer.items()}
    return {"model.embed_tokens.weight": (VOCAB, HIDDEN), **layers, "model.norm.weight": (HIDDEN,)}
