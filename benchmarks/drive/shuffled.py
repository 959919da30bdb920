"""The same model with its channels in another order: all that it computes stays, but for rounding.

A checkpoint that was of 4 bits once has weights that lie on a grid, group by group, and comes unharmed through another
rounding in the same groups. In another order there are other groups, and rounding costs what it costs any model.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

FAMILY = ("llama", "mistral", "qwen2", "qwen3")


def shuffle(source: Path, target: Path, seed: int = 0) -> None:
    """Write the checkpoint in ``source`` to ``target`` in another order. Raises ValueError for a family not in FAMILY."""
    config = json.loads((source / "config.json").read_text())
    if config["model_type"] not in FAMILY:
        raise ValueError(f"can shuffle {', '.join(FAMILY)}; {source} has a {config['model_type']!r}")
    weights = [path.name for path in source.glob("*.safetensors")]
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*weights))
    orders = Orders(config, seed)
    for name in weights:
        shuffled = {key: orders.apply(key, tensor) for key, tensor in load_file(source / name).items()}
        save_file(shuffled, target / name, metadata={"format": "pt"})


class Orders:
    """Random orders of the hidden channels, of the channels of a head's values, and of those inside each MLP."""

    def __init__(self, config: Mapping[str, Any], seed: int) -> None:
        random = torch.Generator().manual_seed(seed)
        hidden, heads, kv_heads = (
            config[name] for name in ("hidden_size", "num_attention_heads", "num_key_value_heads")
        )
        head = torch.randperm(config.get("head_dim") or hidden // heads, generator=random)
        inner = [
            torch.randperm(config["intermediate_size"], generator=random) for _ in range(config["num_hidden_layers"])
        ]
        self._hidden = torch.randperm(hidden, generator=random)
        self._values, self._heads, self._inner = _repeated(head, kv_heads), _repeated(head, heads), inner

    def apply(self, name: str, tensor: Tensor) -> Tensor:
        """``tensor`` in the new order of each of its dimensions."""
        for dim, order in enumerate(self._of(name)[: tensor.ndim]):
            tensor = tensor if order is None else tensor.index_select(dim, order)
        return tensor.contiguous()

    def _of(self, name: str) -> tuple[Tensor | None, ...]:
        """Of the outputs and the inputs of the weight ``name``; a bias or a norm has outputs only."""
        layer = re.search(r"\.layers\.(\d+)\.", name)
        inner = self._inner[int(layer[1])] if layer else None
        orders = {
            **dict.fromkeys(("embed_tokens", "lm_head", "q_proj", "k_proj"), (None, self._hidden)),
            **dict.fromkeys(("gate_proj", "up_proj"), (inner, self._hidden)),
            **dict.fromkeys(("q_norm", "k_norm"), (None,)),
            "down_proj": (self._hidden, inner),
            "v_proj": (self._values, self._hidden),
            "o_proj": (self._hidden, self._heads),
        }
        return orders.get(name.split(".")[-2], (self._hidden,))


def _repeated(order: Tensor, times: int) -> Tensor:
    """``order`` within each of ``times`` parts, end to end."""
    return torch.cat([order + part * len(order) for part in range(times)])
