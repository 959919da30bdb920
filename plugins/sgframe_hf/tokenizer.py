"""A checkpoint's tokenizer, on the ``tokenizers`` library alone: the process that holds it loads no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.processors import TemplateProcessing

from sgframe.errors import ModelError, RequestError
from sgframe.interfaces.source import Tokenizer
from sgframe_hf.chat_template import ChatTemplate, template_sources
from sgframe_hf.checkpoint import read_json
from sgframe_hf.token_bytes import TokenBytes


class HfTokenizer(Tokenizer):
    """Reads ``tokenizer.json``, ``tokenizer_config.json`` and the chat templates in ``folder``. Raises ModelError."""

    def __init__(self, folder: Path) -> None:
        config = read_json(folder / "tokenizer_config.json")
        self._named = _named_tokens(config)
        self._tokenizer = _load(folder / "tokenizer.json")
        _surround(self._tokenizer, config, self._named)
        added = self._tokenizer.get_added_tokens_decoder()
        decoder = self._tokenizer.decoder
        bytes_of = TokenBytes(
            json.loads(decoder.__getstate__()) if decoder else None,  # its part of tokenizer.json
            self._tokenizer.get_vocab(with_added_tokens=True),
            {token: text.content for token, text in added.items()},
        )
        self._bytes = bytes_of.table
        self._strips_leading_space = bytes_of.strips_leading_space
        self._special = frozenset(token for token, text in added.items() if text.special)
        self._template = ChatTemplate(template_sources(folder, config), self._named)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """See Tokenizer. Raises RequestError for text that is no Unicode: a lone surrogate has no bytes.

        Other threads run meanwhile: the library lets go of the interpreter for a batch, and not for a single text.
        """
        try:
            return self._tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)[0].ids
        except TypeError:
            at = next((i for i, character in enumerate(text) if 0xD800 <= ord(character) <= 0xDFFF), None)
            if at is None:
                raise
            raise RequestError(
                f"the text holds a lone surrogate (U+{ord(text[at]):04X}) at character {at}, which is not valid Unicode"
            ) from None

    def token_bytes(self, token: int) -> bytes:
        """See Tokenizer. An id without a token, which a model with a padded vocabulary may produce, has no bytes."""
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    def is_special(self, token: int) -> bool:
        """See Tokenizer."""
        return token in self._special

    @property
    def vocab_size(self) -> int:
        """See Tokenizer."""
        return len(self._bytes)

    @property
    def eos_id(self) -> int | None:
        """The token that tokenizer_config.json names as the end of a sequence."""
        name = self._named.get("eos_token")
        return None if name is None else self._tokenizer.token_to_id(name)

    @property
    def strips_leading_space(self) -> bool:
        """See Tokenizer."""
        return self._strips_leading_space

    def serialized(self) -> str:
        """See Tokenizer."""
        return str(self._tokenizer.to_str())

    @property
    def has_chat_template(self) -> bool:
        """See Tokenizer."""
        return bool(self._template)

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None, **options: Any
    ) -> str:
        """See Tokenizer. ``options`` are variables for the template, such as ``add_generation_prompt`` (default True)."""
        return self._template.render(messages, tools, options)


def _load(path: Path) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every kind of unreadable file
        raise ModelError(f"{path} cannot be read as a tokenizer: {error}") from error
    tokenizer.no_truncation()  # files often carry what their author last trained with
    tokenizer.no_padding()
    return tokenizer


def _named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """``bos_token`` and its like in tokenizer_config.json, each a text or an object with ``content``."""
    named: dict[str, str] = {}
    for key, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            named[key] = text
    return named


def _surround(tokenizer: tokenizers.Tokenizer, config: Mapping[str, Any], named: Mapping[str, str]) -> None:
    """Honour ``add_bos_token`` and ``add_eos_token``, which rule over tokenizer.json where they are given."""
    if "add_bos_token" not in config and "add_eos_token" not in config:
        return
    bos = named.get("bos_token") if config.get("add_bos_token") else None
    eos = named.get("eos_token") if config.get("add_eos_token") else None
    ids = {text: tokenizer.token_to_id(text) for text in (bos, eos) if text is not None}
    if unknown := [text for text, token in ids.items() if token is None]:
        raise ModelError(f"tokenizer_config.json asks for {unknown[0]!r} around texts, which is no token")
    pieces = [bos, "$A", eos]
    tokenizer.post_processor = TemplateProcessing(
        single=[piece for piece in pieces if piece is not None], pair=None, special_tokens=list(ids.items())
    )
