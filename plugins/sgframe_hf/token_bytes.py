"""The bytes each token stands for, worked out from the decoder that a tokenizer.json declares.

Two families have such a table: byte-level BPE (Radford et al. 2019), whose tokens are spelled in 256 printable
characters, one a byte; and SentencePiece (Kudo & Richardson 2018), whose tokens are text with ▁ for a space and
``<0xNN>`` for a single byte. Decoders that look at a token's neighbours have none and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sgframe.errors import ModelError

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "▁"


class TokenBytes:
    """The table of one tokenizer.

    ``decoder`` is the part of that name of its tokenizer.json, ``vocabulary`` maps the text of every token to its id,
    ``added`` the ids of added tokens to their text.

    Attributes:
        table: ``table[i]`` are the bytes of token i; empty for an id that no token has.
        strips_leading_space: whether decoding drops one space in front of a whole text.

    Raises ModelError, naming the decoder, when the tokenizer has no such table.
    """

    def __init__(
        self, decoder: Mapping[str, Any] | None, vocabulary: Mapping[str, int], added: Mapping[int, str]
    ) -> None:
        stages = _stages(decoder)
        self.strips_leading_space = any(_strips(stage) for stage in stages)
        byte_level = [stage["type"] for stage in stages] == ["ByteLevel"]
        spell = _byte_level_speller() if byte_level else _sentencepiece_speller(stages)
        self.table = [b""] * (max(vocabulary.values(), default=-1) + 1)
        for text, token in vocabulary.items():
            self.table[token] = spell(text)
        if byte_level:  # what was added to a byte-level vocabulary is spelled literally, not in byte characters
            for token, text in added.items():
                self.table[token] = text.encode("utf-8")


def _stages(decoder: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if decoder is None:
        raise _refuse("no decoder")
    if decoder["type"] == "Sequence":
        return [stage for part in decoder["decoders"] for stage in _stages(part)]
    return [decoder]


def _refuse(what: str) -> ModelError:
    return ModelError(
        f"tokenizer.json has {what}, for which the bytes of a single token are not defined; "
        "byte-level BPE and SentencePiece decoders are supported"
    )


def _strips(stage: Mapping[str, Any]) -> bool:
    if stage["type"] == "Metaspace":
        never = "never" if stage.get("add_prefix_space", True) is False else "always"
        return bool(stage.get("prepend_scheme", never) != "never")
    return bool(stage["type"] == "Strip" and stage["start"])


def _sentencepiece_speller(stages: list[Mapping[str, Any]]) -> Callable[[str], bytes]:
    replacements: list[tuple[str, str]] = []
    byte_fallback = fused = False
    for stage in stages:
        match stage:
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if not fused:
                replacements.append((old, new))
            case {"type": "Metaspace"}:
                replacements.append((stage.get("replacement", _SPACE), " "))
            case {"type": "ByteFallback"} if not fused:
                byte_fallback = True
            case {"type": "Fuse"}:
                fused = True
            case {"type": "Strip", "content": " ", "start": 0 | 1, "stop": 0} if fused:
                pass  # acts on the whole text: see strips_leading_space
            case _:
                raise _refuse(f"a decoder {stage['type']} ({', '.join(part['type'] for part in stages)})")

    def spell(text: str) -> bytes:
        if byte_fallback and (byte := _BYTE_TOKEN.fullmatch(text)):
            return bytes([int(byte[1], 16)])
        for old, new in replacements:
            text = text.replace(old, new)
        return text.encode("utf-8")

    return spell


def _byte_level_speller() -> Callable[[str], bytes]:
    byte_of = {character: byte for byte, character in enumerate(_byte_characters())}

    def spell(text: str) -> bytes:
        try:
            return bytes([byte_of[character] for character in text])
        except KeyError:  # not spelled in byte characters at all
            return text.encode("utf-8")

    return spell


def _byte_characters() -> list[str]:
    """The character that spells each byte: itself where it is printable in Latin-1, else the next free one from 256."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(256, 512))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]
