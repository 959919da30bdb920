"""The model source seam: from a name to a checkpoint on disk, and its tokenizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Progress = Callable[[str, int, int], None]
"""``progress(what, done, total)`` in bytes, called while something is fetched or converted; ``total`` 0 if unknown."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model that can be asked for by a short name."""

    name: str
    summary: str
    licence: str
    download_bytes: int
    cached: bool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on disk: ``folder`` has config.json, safetensors weights and the tokenizer's files (Hugging Face layout)."""

    name: str
    folder: str
    context_length: int
    vocab_size: int
    eos_ids: tuple[int, ...]


class Tokenizer(ABC):
    """Text to ids and ids to bytes. Thread-safe."""

    @abstractmethod
    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of ``text``; with ``add_special_tokens`` the ones the model expects around a plain prompt (BOS)."""

    @abstractmethod
    def token_bytes(self, token: int) -> bytes:
        """The bytes ``token`` stands for, as UTF-8 pieces that may split a character; a special token gives its name."""

    @abstractmethod
    def is_special(self, token: int) -> bool:
        """Whether ``token`` is a control token that ``skip_special_tokens`` leaves out."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Ids are 0 … vocab_size - 1 (the tokenizer's own count; the model's may be larger)."""

    @property
    @abstractmethod
    def strips_leading_space(self) -> bool:
        """Whether decoding a whole sequence drops one leading space (SentencePiece's dummy prefix)."""

    @property
    @abstractmethod
    def has_chat_template(self) -> bool:
        """Whether ``apply_chat_template`` can work."""

    def serialized(self) -> str:
        """The tokenizer in the ``tokenizers`` library's JSON, such that its encoding without special tokens is this one's;
        empty when it has no such form. Grammars cut the text that they force by it."""
        return ""

    @abstractmethod
    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        """Render ``messages`` by the model's own template, ready for the assistant's turn.

        Raises RequestError with the template's own words when it refuses them, or when the model has no template. The
        result already holds its special tokens: encode it with ``add_special_tokens=False``.
        """


class ModelSource(ABC):
    """Built as ``target(settings)``."""

    @abstractmethod
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The models known by short names."""

    @abstractmethod
    def resolve(self, name: str, progress: Progress) -> Checkpoint:
        """Make ``name`` (a folder, a file, a hub id, a short name) a checkpoint on disk, fetching it if need be.

        Raises ModelError: what was tried, why it failed, what to do.
        """

    @abstractmethod
    def tokenizer(self, checkpoint: Checkpoint) -> Tokenizer:
        """The checkpoint's tokenizer. Raises ModelError."""
