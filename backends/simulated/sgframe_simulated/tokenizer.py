"""A tokenizer of single bytes, and a chat template. Knows no files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sgframe.errors import RequestError
from sgframe.interfaces.source import Tokenizer

SPECIALS = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")
BOS, EOS, IM_START, IM_END = range(256, 260)
VOCAB_SIZE = 260

_SPLIT_AT_SPECIALS = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")").split

_NOTHING_ELSE: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
"""Of a tokenizer.json, with the null stages that may be left out left out."""


class ByteTokenizer(Tokenizer):
    """Id b stands for byte b; the ids from 256 on are special tokens, found wherever a text spells them out."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        ids = [BOS] if add_special_tokens else []
        for piece in _SPLIT_AT_SPECIALS(text):
            ids.extend([256 + SPECIALS.index(piece)] if piece in SPECIALS else _utf8(piece))
        return ids

    def token_bytes(self, token: int) -> bytes:
        if token < 256:
            return bytes([token])
        return SPECIALS[token - 256].encode() if token < VOCAB_SIZE else b""

    def is_special(self, token: int) -> bool:
        return token >= 256

    @property
    def vocab_size(self) -> int:
        return VOCAB_SIZE

    @property
    def strips_leading_space(self) -> bool:
        return False

    def serialized(self) -> str:
        """Byte-level BPE that merges nothing."""
        vocabulary = {character: byte for byte, character in enumerate(_byte_characters())}
        before = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return json.dumps(
            {"pre_tokenizer": before, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}} | _NOTHING_ELSE
        )

    @property
    def has_chat_template(self) -> bool:
        return True

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **options: Any,
    ) -> str:
        """ChatML. Tools come first, as JSON in a system turn; the template reads no other option, as a Jinja one may not."""
        turns = [("system", json.dumps(list(tools)))] if tools else []
        turns += [(message["role"], _content(message)) for message in messages]
        text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        return f"{text}<|im_start|>assistant\n" if add_generation_prompt else text


def _byte_characters() -> list[str]:
    """The character by which byte-level BPE writes each byte (GPT-2): its own if it can be seen, else one from 256 on."""
    seen = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)}
    unseen = [byte for byte in range(256) if byte not in seen]
    return [chr(byte if byte in seen else 256 + unseen.index(byte)) for byte in range(256)]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"the prompt holds a lone surrogate at character {error.start}", param="prompt") from None


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message, whole or in parts, and its tool calls as JSON."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(map(_part, content))
    return content + (json.dumps(message["tool_calls"]) if message.get("tool_calls") else "")


def _part(part: Mapping[str, Any]) -> str:
    if part.get("type") != "text":
        raise RequestError(
            f"the simulated model reads text only, found a content part of type {part.get('type')!r}", param="messages"
        )
    return str(part["text"])
