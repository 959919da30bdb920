"""Token ids back to text, for prompts and for single tokens; outputs come from the engine as text already."""

from __future__ import annotations

from collections.abc import Iterable

from sgframe.interfaces.source import Tokenizer


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """One token alone; bytes that are no whole character become U+FFFD (its ``bytes`` tell the truth)."""
    return tokenizer.token_bytes(token).decode("utf-8", "replace")


def detokenize(tokenizer: Tokenizer, tokens: Iterable[int], *, skip_special_tokens: bool = False) -> str:
    """The text that ``tokens`` stand for."""
    kept = (token for token in tokens if not (skip_special_tokens and tokenizer.is_special(token)))
    text = b"".join(map(tokenizer.token_bytes, kept)).decode("utf-8", "replace")
    return text.removeprefix(" ") if tokenizer.strips_leading_space else text
