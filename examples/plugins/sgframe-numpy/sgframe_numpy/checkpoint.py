"""A checkpoint on disk: its config.json, and its safetensors as arrays. Knows nothing of how a model computes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from sgframe.errors import ModelError
from sgframe.interfaces.source import Progress

Floats = npt.NDArray[np.float32]

STORED: dict[str, npt.DTypeLike] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""How weights are read. NumPy has no bfloat16, which is the upper half of a float32; uint16 stands for it."""


class LlamaConfig(msgspec.Struct, frozen=True):
    """What config.json says of a Llama, under the names that it has there. Other values than these are refused."""

    model_type: Literal["llama"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    rms_norm_eps: float
    head_dim: int | None = None
    hidden_act: Literal["silu"] = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    rope_theta: float = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] = {}

    def __post_init__(self) -> None:
        rope = {"rope_type": "default", "rope_theta": self.rope_theta, **self.rope_parameters}
        if self.rope_scaling or rope != {"rope_type": "default", "rope_theta": self.theta}:
            raise ValueError(f"its rotary embedding is scaled: {self.rope_scaling or rope}")
        if self.attention_bias or self.mlp_bias:
            raise ValueError("its linear layers have biases")

    @property
    def theta(self) -> float:
        """The base of the rotary embedding's wavelengths."""
        return float(self.rope_parameters.get("rope_theta", self.rope_theta))

    @property
    def dim(self) -> int:
        """The size of one attention head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def slot_bytes(self) -> int:
        """What one token's keys and values take over all layers."""
        return 2 * 4 * self.num_hidden_layers * self.num_key_value_heads * self.dim


def read_config(folder: Path) -> LlamaConfig:
    """Raises ModelError for a model that is no plain Llama."""
    try:
        return msgspec.json.decode((folder / "config.json").read_bytes(), type=LlamaConfig)
    except (OSError, msgspec.DecodeError) as error:
        raise ModelError(
            f"the numpy backend cannot run the model in {folder}: {error}; it knows plain Llama models, choose --backend cpu"
        ) from error


def stored_tensors(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """The tensors of all safetensors files in ``folder`` by name, mapped and not yet read. Raises ModelError."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} has no .safetensors file; convert the checkpoint to safetensors first")
    return {name: tensor for file in files for name, tensor in _tensors(file)}


def _tensors(file: Path) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """The format: the length of the header in 8 bytes, the header in JSON, then the data, little-endian."""
    try:
        raw = np.memmap(file, np.uint8, "r")
        size = int.from_bytes(raw[:8].tobytes(), "little")
        header, data = json.loads(raw[8 : 8 + size].tobytes()), raw[8 + size :]
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            yield name, data[begin:end].view(STORED[tensor["dtype"]]).reshape(tensor["shape"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"cannot read the weights in {file}: {error!r}; they must be whole, and in {', '.join(STORED)}"
        ) from error


def read_weights(stored: Mapping[str, npt.NDArray[Any]], progress: Progress) -> dict[str, Floats]:
    """All tensors in float32; ``progress`` counts bytes of the files."""
    weights, done, total = {}, 0, sum(tensor.nbytes for tensor in stored.values())
    for name, tensor in stored.items():
        weights[name] = widen(tensor)
        done += tensor.nbytes
        progress("weights", done, total)
    return weights


def widen(stored: npt.NDArray[Any]) -> Floats:
    """``stored`` in float32."""
    if stored.dtype == np.uint16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)
