"""Log-probabilities in OpenAI's two shapes: chat's ``content`` list, and the parallel lists of text completions."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from typing import Any

from sgframe.interfaces.source import Tokenizer
from sgframe.messages import Logprobs
from sgframe_openai.text import token_text

LOWEST = -9999.0
"""Stands for minus infinity, which JSON cannot write."""

_NAMES = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def chat_logprobs(tokenizer: Tokenizer, entries: Iterable[Logprobs]) -> dict[str, Any]:
    """``choice.logprobs`` of a chat answer. Tokens that a grammar wrote alone have ``forced: true``."""
    content = [
        {
            **_chat_token(tokenizer, entry.token, entry.logprob),
            "top_logprobs": [
                _chat_token(tokenizer, token, logprob)
                for token, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True)
            ],
            **({"forced": True} if entry.forced else {}),
        }
        for entry in entries
    ]
    return {"content": content, "refusal": None}


def _chat_token(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    return {
        "token": token_text(tokenizer, token),
        "logprob": max(logprob, LOWEST),
        "bytes": list(tokenizer.token_bytes(token)),
    }


class TextLogprobs:
    """``choice.logprobs`` of a text completion, written piece by piece: each piece has lists of equal length.

    ``text_offset`` counts characters from the start of the choice's text; a token that ends inside a character has the
    offset of that character. ``top_logprobs`` also holds the chosen token; of two tokens with one text the likelier stays.
    ``forced``, only of a ``constrained`` output, says which tokens a grammar wrote alone.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool, constrained: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special_tokens
        self._names = (*_NAMES, "forced") if constrained else _NAMES
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def prompt(self, tokens: Sequence[int], text: str, entries: Sequence[Logprobs]) -> dict[str, list[Any]]:
        """The piece for an echoed prompt: ``entries`` are those of tokens 1 …, the first token has none."""
        piece: dict[str, list[Any]] = {name: [] for name in self._names}
        for token, entry in zip(tokens, (None, *entries), strict=True):
            self._add(piece, token, entry, self._shown_in(text, token))
        return piece

    def output(self, entries: Iterable[Logprobs]) -> dict[str, list[Any]]:
        """The piece for new output tokens."""
        piece: dict[str, list[Any]] = {name: [] for name in self._names}
        for entry in entries:
            shown = not (self._skip_special and self._tokenizer.is_special(entry.token))
            self._add(piece, entry.token, entry, self._tokenizer.token_bytes(entry.token) if shown else b"")
        return piece

    def _shown_in(self, text: str, token: int) -> bytes:
        """What ``token`` put into ``text``: nothing, if it is a special token that does not stand there (such as BOS)."""
        data = self._tokenizer.token_bytes(token)
        if self._tokenizer.is_special(token) and not text.startswith(data.decode("utf-8", "replace"), self._offset):
            return b""
        if self._offset == 0 and self._tokenizer.strips_leading_space and not text.startswith(" "):
            return data.removeprefix(b" ")
        return data

    def _add(self, piece: dict[str, list[Any]], token: int, entry: Logprobs | None, shown: bytes) -> None:
        piece["tokens"].append(token_text(self._tokenizer, token))
        piece["text_offset"].append(self._offset)
        piece["token_logprobs"].append(None if entry is None else max(entry.logprob, LOWEST))
        piece["top_logprobs"].append(None if entry is None else self._top(entry))
        if "forced" in piece:
            piece["forced"].append(entry is not None and entry.forced)
        self._offset += len(self._decoder.decode(shown))

    def _top(self, entry: Logprobs) -> dict[str, float]:
        top: dict[str, float] = {}
        for token, logprob in (*zip(entry.top_ids, entry.top_logprobs, strict=True), (entry.token, entry.logprob)):
            top.setdefault(token_text(self._tokenizer, token), max(logprob, LOWEST))
        return top


def joined(first: dict[str, list[Any]], second: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Two pieces of a text completion's logprobs as one."""
    return {name: first[name] + second[name] for name in first}
