"""The model's arithmetic: a hash of every prefix, and the token that follows it. Knows no rows, slots or batches.

Pure functions, so that a test can say by formula what must come out, however the work was cut, cached or resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_PRIME = (1 << 61) - 1
_BASE = 0x1234_5678_9ABC_DEF1 % _PRIME

EMPTY_PREFIX = 1
"""The hash before the first token."""


def extend(prefix_hash: int, token: int) -> int:
    """The hash of a prefix made longer by ``token``: a polynomial modulo 2^61 - 1 (Karp and Rabin 1987)."""
    return (prefix_hash * _BASE + token + 2) % _PRIME


def prefix_hashes(tokens: Iterable[int], prefix_hash: int = EMPTY_PREFIX) -> list[int]:
    """The hash after each of ``tokens``, which follow a prefix of hash ``prefix_hash``."""
    hashes = []
    for token in tokens:
        prefix_hash = extend(prefix_hash, token)
        hashes.append(prefix_hash)
    return hashes


def tree_hashes(tokens: Sequence[int], prompt_len: int, parents: Sequence[int]) -> list[int]:
    """The hash after each of ``tokens``, of which those from ``prompt_len`` on are the nodes of a tree (see Tree): after
    a node, that of the prompt and of the path down to it."""
    hashes = prefix_hashes(tokens[:prompt_len])
    for token, parent in zip(tokens[prompt_len:], parents, strict=True):
        hashes.append(extend(hashes[prompt_len + parent], token))
    return hashes


def logprob(prefix_hash: int, token: int) -> float:
    """What a tree is told of ``token`` after a prefix of that hash: less than 0, at least -16, and exact in binary."""
    return -(1 + (_scrambled(extend(prefix_hash, token)) & 0xFFF)) / 256


def next_token(mode: str, tokens: Sequence[int], prompt_len: int, prefix_hash: int, vocab_size: int) -> int:
    """What follows ``tokens``, whose hash is ``prefix_hash`` and whose first ``prompt_len`` are the prompt.

    ``echo``: output token i is prompt token i modulo the prompt's length. ``hash``: any change of any token before gives
    another token (with the chance of 1 - 1 / vocab_size).
    """
    if mode == "echo":
        return tokens[len(tokens) % prompt_len]
    return _scrambled(prefix_hash) % vocab_size


def _scrambled(prefix_hash: int) -> int:
    return prefix_hash * 0x9E37_79B9_7F4A_7C15 >> 32


def expected_tokens(prompt: Sequence[int], n: int, mode: str, vocab_size: int) -> list[int]:
    """The ``n`` tokens that the model must answer to ``prompt``."""
    tokens, prefix_hash = list(prompt), prefix_hashes(prompt)[-1]
    for _ in range(n):
        tokens.append(next_token(mode, tokens, len(prompt), prefix_hash, vocab_size))
        prefix_hash = extend(prefix_hash, tokens[-1])
    return tokens[len(prompt) :]
