"""What grammars need to know of a model's tokens, read off its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.grammar import Vocabulary
from sgframe.interfaces.source import Tokenizer


def vocabulary_of(tokenizer: Tokenizer, size: int, stop_ids: Sequence[int]) -> Vocabulary:
    """The bytes of the ids 0 … ``size`` - 1, the model's own count."""
    known = range(tokenizer.vocab_size)
    tokens = [b"" if tokenizer.is_special(token) else tokenizer.token_bytes(token) for token in known]
    return Vocabulary(tokens, tuple(stop_ids), tokenizer.serialized()).resized(size)
