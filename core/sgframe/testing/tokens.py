"""A small vocabulary for tests of grammars: every byte, a few longer tokens, and ids that stand for no text.

Its tokens cross the borders that matter: between a quote and what follows, inside a character, and between words that begin
alike. Its tokenizer is byte-level BPE (Sennrich et al. 2016; Radford et al. 2019).
"""

from __future__ import annotations

from functools import cache

import tokenizers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from sgframe.interfaces.grammar import Vocabulary

_MERGES = (
    *((b"\xc3", b"\xa9"), (b"\xf0", b"\x9f"), (b"\xf0\x9f", b"\x98"), (b"\xa9", b'"'), (b"a", b"\xc3")),
    *(
        (b"{", b'"'),
        (b'"', b":"),
        (b'":', b" "),
        (b'": ', b'"'),
        (b",", b" "),
        (b", ", b'"'),
        (b'"', b"}"),
        (b"]", b"}"),
    ),
    *((b"a", b"b"), (b"ab", b"ab"), (b"n", b"a"), (b"m", b"e"), (b"na", b"me"), (b'{"', b"name"), (b"[", b"[")),
    *(
        (b"t", b"r"),
        (b"e", b"e"),
        (b"tr", b"ee"),
        (b"u", b"e"),
        (b"tr", b"ue"),
        (b"ee", b"name"),
        (b" ", b" "),
        (b"<", b"t"),
    ),
)
_TOKENS = [b"", b"", *(bytes([byte]) for byte in range(256)), *(left + right for left, right in _MERGES), b"", b""]
STOP_IDS = (0, len(_TOKENS) - 1)
STOP_NAME = "<|end|>"
"""What the tokenizer calls the first stop id; a text that holds it is no less a text."""


def _characters() -> list[str]:
    """How byte-level BPE spells each byte: as itself where Latin-1 has something to see, else as the next from 256 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in seen else next(others)) for byte in range(256)]


def _make() -> tokenizers.Tokenizer:
    characters = _characters()

    def spell(data: bytes) -> str:
        return "".join(characters[byte] for byte in data)

    ids = {spell(data): token for token, data in enumerate(_TOKENS) if data} | {STOP_NAME: STOP_IDS[0]}
    tokenizer = tokenizers.Tokenizer(BPE(vocab=ids, merges=[(spell(left), spell(right)) for left, right in _MERGES]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens([STOP_NAME])
    return tokenizer


_TOKENIZER = _make()
_TOKENIZER.encode_special_tokens = True
VOCABULARY = Vocabulary(_TOKENS, STOP_IDS, _TOKENIZER.to_str())


@cache
def encode(text: str) -> list[int]:
    """The tokenizer's own tokens of ``text``."""
    ids: list[int] = _TOKENIZER.encode(text).ids
    return ids
