"""What a GGUF file says about its model that transformers' own conversion does not take up, or takes up wrongly.

Keys and tensor names as in the GGUF specification; pre-tokenizer and token names as llama.cpp spells them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, TokenType

from sgframe.errors import ModelError

_DIGITS_THEN_GPT2 = frozenset(
    ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2")
)
_GPT2 = frozenset(
    ("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "mellum", "exaone4", "a.x-4.0")
)
_IGNORE_MERGES = frozenset(
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
)
"""Vocabularies whose whole-word tokens win over merges."""

_CHAT_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>")
_DOCUMENT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "<end_of_utterance>", "<EOT>", "[EOT]")
_END_OF_OUTPUT = frozenset((*_CHAT_ENDS, *_DOCUMENT_ENDS))
"""Control tokens that end an output in some family. A GGUF names one, while a chat model often has two."""


class GgufFacts:
    """A GGUF file's header, read once. Raises ModelError for a file that cannot be converted faithfully."""

    def __init__(self, path: Path) -> None:
        try:
            self._reader = GGUFReader(path)
        except (ValueError, IndexError) as error:
            raise ModelError(f"{path} is not a readable GGUF file: {error}") from error
        if self._value("split.count", 1) > 1:
            raise ModelError(f"{path} is one part of a split GGUF; join them first with llama-gguf-split --merge")
        self._architecture = str(self._value("general.architecture", ""))
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.tokens: list[str] = self._value("tokenizer.ggml.tokens", [])

    def _value(self, key: str, default: Any) -> Any:
        field = self._reader.fields.get(key)
        return default if field is None else field.contents()

    @property
    def float32(self) -> bool:
        """Whether every matrix is stored in float32."""
        return all(t.tensor_type == GGMLQuantizationType.F32 for t in self._tensors.values() if len(t.shape) > 1)

    def end_ids(self) -> list[int]:
        """Ids that end an output: the declared one first, then the control tokens known to."""
        kinds = self._value("tokenizer.ggml.token_type", [])
        declared = [self._value(f"tokenizer.ggml.{name}_token_id", None) for name in ("eos", "eot", "eom")]
        named = [
            token
            for token, (text, kind) in enumerate(zip(self.tokens, kinds, strict=True))
            if kind == TokenType.CONTROL and text in _END_OF_OUTPUT
        ]
        return list(dict.fromkeys(token for token in [*declared, *named] if token is not None))

    def correct_tokenizer(self, document: dict[str, Any], known: frozenset[str]) -> None:
        """Make ``document`` (a tokenizer.json) treat text as the file says; ``known`` pre-tokenizers are right already."""
        kind = self._value("tokenizer.ggml.model", "")
        if kind == "gpt2":
            self._correct_split(document, known)
        elif kind == "llama" and not self._value("tokenizer.ggml.add_space_prefix", True):
            _drop_space_prefix(document)

    def _correct_split(self, document: dict[str, Any], known: frozenset[str]) -> None:
        kind = self._value("tokenizer.ggml.pre", "default")
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        if kind in _DIGITS_THEN_GPT2:
            digits = {"type": "Digits", "individual_digits": True}
            document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, byte_level]}
        elif kind in _GPT2:
            document["pre_tokenizer"] = byte_level
        elif kind not in known:
            raise ModelError(
                f"the GGUF splits text by the pre-tokenizer {kind!r}, which cannot be converted faithfully; "
                "use the model's Hugging Face folder instead"
            )
        document["model"]["ignore_merges"] = kind in _IGNORE_MERGES

    def rope_parameters(self, theta: float) -> dict[str, Any] | None:
        """Rotary scaling in transformers' terms, or None if positions are not scaled."""
        scaling = self._value(f"{self._architecture}.rope.scaling.type", "none")
        long_rope = "rope_factors_long.weight" in self._tensors
        if (scaling != "none" or long_rope) and self._architecture != "gpt-oss":  # transformers reads gpt-oss's own
            raise ModelError(
                f"the GGUF scales rotary positions by {'longrope' if long_rope else scaling!r}, which cannot be "
                "converted faithfully; use the model's Hugging Face folder instead"
            )
        divisors = self._tensors.get("rope_freqs.weight")
        return None if divisors is None else _llama3_scaling(np.asarray(divisors.data, dtype=np.float64), theta)


def _drop_space_prefix(document: dict[str, Any]) -> None:
    before = document["pre_tokenizer"]
    if before is not None and before["type"] == "Metaspace":
        before["prepend_scheme"] = "never"
        stages = document["decoder"]["decoders"]
        document["decoder"]["decoders"] = [stage for stage in stages if stage["type"] != "Strip"]


def _llama3_scaling(divisors: np.ndarray[Any, np.dtype[np.float64]], theta: float) -> dict[str, Any]:
    """Recover Llama 3.1's scaling from the divisors of the rotary frequencies that the file holds instead."""
    low, high, original = 1.0, 4.0, 8192
    factor = float(divisors.max())
    wavelengths = 2 * math.pi * theta ** (np.arange(len(divisors)) / len(divisors))
    smooth = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    if not np.allclose(divisors, 1 / (smooth + (1 - smooth) / factor), rtol=1e-3):
        raise ModelError(
            "the GGUF scales rotary positions by a table that is not Llama 3.1's; use the model's Hugging Face folder"
        )
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
