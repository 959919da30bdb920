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


def next_token(mode: str, tokens: Sequence[int], prompt_len: int, prefix_hash: int, vocab_size: int) -> int:
    """What follows ``tokens``, whose hash is ``prefix_hash`` and whose first ``prompt_len`` are the prompt.

    ``echo``: output token i is prompt token i modulo the prompt's length. ``hash``: any change of any token before gives
    another token (with the chance of 1 - 1 / vocab_size).
    """
    if mode == "echo":
        return tokens[len(tokens) % prompt_len]
    return (prefix_hash * 0x9E37_79B9_7F4A_7C15 >> 32) % vocab_size


def expected_tokens(prompt: Sequence[int], n: int, mode: str, vocab_size: int) -> list[int]:
    """The ``n`` tokens that the model must answer to ``prompt``."""
    tokens, prefix_hash = list(prompt), prefix_hashes(prompt)[-1]
    for _ in range(n):
        tokens.append(next_token(mode, tokens, len(prompt), prefix_hash, vocab_size))
        prefix_hash = extend(prefix_hash, tokens[-1])
    return tokens[len(prompt) :]
