"""The checkpoint's config.json, as the models read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from sgframe.errors import ModelError


class _Rope(TypedDict):
    rope_type: Literal["default"]
    rope_theta: float


class PlainLlama(msgspec.Struct, frozen=True):
    """A Llama's config.json that spells out all that matters here, as transformers 5 writes it, and asks for nothing else.

    Such a one is taken as it stands. transformers, which knows each model's defaults and older spellings, takes 1.1 s and
    100 MB to import its configurations.
    """

    model_type: Literal["llama"]
    hidden_act: Literal["silu"]
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    rope_parameters: _Rope
    sliding_window: None = None
    layer_types: None = None
    quantization_config: None = None

    def to_dict(self) -> dict[str, Any]:
        """Its fields by name."""
        return msgspec.structs.asdict(self)


def read_config(folder: Path) -> Any:
    """The parsed config.json of the checkpoint: a PlainLlama, or a configuration of transformers. Raises ModelError."""
    try:
        return msgspec.json.decode((folder / "config.json").read_bytes(), type=PlainLlama)
    except (OSError, msgspec.DecodeError):
        return _parsed_by_transformers(folder)


def _parsed_by_transformers(folder: Path) -> Any:
    from transformers import AutoConfig  # noqa: PLC0415 (seldom needed, see PlainLlama)

    try:
        return AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"cannot read the config.json in {folder}: {error}") from error
