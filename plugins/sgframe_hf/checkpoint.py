"""Reads a model folder in Hugging Face layout: is it complete, and what do its configuration files say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sgframe.errors import ModelError

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
_SLOW_TOKENIZERS = ("tokenizer.model", "spiece.model", "vocab.json", "tekken.json", "vocab.txt")
_LFS_POINTER = b"version https://git-lfs"


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``, or ``{}`` if there is no such file. Raises ModelError when it is not a JSON object."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} must hold a JSON object, found {type(value).__name__}")
    return value


def check_complete(folder: Path) -> None:
    """Raise ModelError naming everything that ``folder`` lacks to be a checkpoint."""
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    missing += _missing_weights(folder)
    if not any((folder / name).is_file() for name in ("tokenizer.json", *_SLOW_TOKENIZERS)):
        missing.append("a tokenizer (tokenizer.json)")
    if missing:
        ggufs = sorted(path.name for path in folder.glob("*.gguf"))
        hint = f"; it holds {', '.join(ggufs[:3])}: pass the path of that file" if ggufs else ""
        raise ModelError(f"{folder} is not a complete model folder, it lacks {', '.join(missing)}{hint}")


def _missing_weights(folder: Path) -> list[str]:
    index = read_json(folder / "model.safetensors.index.json")
    shards = sorted(set(index["weight_map"].values())) if "weight_map" in index else []
    found = shards or sorted(path.name for path in folder.glob("*.safetensors"))
    if not found:
        other = [path.name for path in folder.glob("*.bin")]
        return [f"safetensors weights (it has {other[0]}, which is not read)" if other else "weights (*.safetensors)"]
    return [name for name in found if not (folder / name).is_file()] + [
        f"the content of {name} (a git-lfs pointer: run 'git lfs pull')"
        for name in found
        if (folder / name).is_file() and _is_pointer(folder / name)
    ]


def _is_pointer(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_LFS_POINTER)) == _LFS_POINTER


class ModelConfig:
    """What ``config.json`` and ``generation_config.json`` in ``folder`` say about the text model."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "config.json"
        whole = read_json(self._path)
        self._text: dict[str, Any] = {**whole, **(whole.get("text_config") or {})}
        self._generation = read_json(folder / "generation_config.json")

    def vocab_size(self) -> int:
        """How many ids the model knows."""
        return self._positive("vocab_size")

    def context_length(self) -> int:
        """Positions the model was made for; YaRN scaling (Peng et al. 2023) counts, which config.json may leave out."""
        declared = self._positive(*_CONTEXT_KEYS)
        scaling = self._text.get("rope_parameters") or self._text.get("rope_scaling") or {}
        if scaling.get("rope_type", scaling.get("type")) != "yarn":
            return declared
        return max(declared, int(scaling["factor"] * (scaling.get("original_max_position_embeddings") or declared)))

    def eos_ids(self) -> list[int]:
        """Ids that end an output, as generation_config.json says, else config.json."""
        for source in (self._generation, self._text):
            if (value := source.get("eos_token_id")) is not None:
                return list(value) if isinstance(value, list) else [value]
        return []

    def _positive(self, *keys: str) -> int:
        for key in keys:
            if (value := self._text.get(key)) is not None:
                if isinstance(value, int) and value > 0:
                    return value
                raise ModelError(f"{self._path}: {key} must be a positive integer, found {value!r}")
        raise ModelError(f"{self._path} says none of {', '.join(keys)}: the model cannot be served")
