"""The tokenizer as the library wants it: a table of bytes, and a function that cuts text into tokens."""

from __future__ import annotations

import tokenizers
from llguidance import LLTokenizer, TokenizerWrapper

from sgframe.interfaces.grammar import Vocabulary

_PROBE = '{"a": "é"}'


class Encoder:
    """Cuts text as the model's tokenizer does, where that keeps every byte; else by the longest token first.

    The end of a text is an id beyond the model's own, so that the model's stop ids are never in a mask.

    Attributes:
        is_canonical: whether it cuts as the model's tokenizer does, so that its tokens may be forced.
        eos_token_id, bos_token_id, tokens, special_token_ids: what the library reads.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = len(vocabulary.tokens)
        self.bos_token_id = None
        self.tokens = [*vocabulary.tokens, b""]
        self.special_token_ids = [token for token, data in enumerate(self.tokens) if not data]
        self._ids = {data: token for token, data in reversed([*enumerate(self.tokens)]) if data}
        self._longest = max(map(len, self._ids), default=0)
        self._tokenizer: tokenizers.Tokenizer | None = None
        if vocabulary.tokenizer_json:
            self._tokenizer = tokenizers.Tokenizer.from_str(vocabulary.tokenizer_json)
            self._tokenizer.encode_special_tokens = True  # the name of a special token in a text is text
        self.is_canonical = self._encode(_PROBE) is not None

    def __call__(self, text: str) -> list[int]:
        """The tokens of ``text``; their bytes are its own, or the beginning of them when a byte has no token."""
        if not isinstance(text, str):  # how the library finds out that it must pass text
            raise TypeError("text is wanted")
        return self._encode(text) or self._cut(text.encode())

    def _encode(self, text: str) -> list[int] | None:
        """By the tokenizer; None where that adds something (a space in front, say) or loses it."""
        if self._tokenizer is None:
            return None
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids if b"".join(self.tokens[token] for token in ids) == text.encode() else None

    def _cut(self, data: bytes) -> list[int]:
        ids: list[int] = []
        while data:
            lengths = range(min(len(data), self._longest), 0, -1)
            length = next((length for length in lengths if data[:length] in self._ids), 0)
            if not length:
                break
            ids.append(self._ids[data[:length]])
            data = data[length:]
        return ids


def make_tokenizer(encoder: Encoder) -> LLTokenizer:
    """The library's tokenizer. A mask of it has one bit more than the model has ids."""
    return LLTokenizer(TokenizerWrapper(encoder), n_vocab=len(encoder.tokens), eos_token=encoder.eos_token_id)
