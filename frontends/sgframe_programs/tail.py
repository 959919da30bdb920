"""Which ids of an output stand for its text, and what of the text none stands for. Pure; knows a tokenizer's bytes."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from sgframe.interfaces.source import Tokenizer
from sgframe.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Kept:
    """The first ``whole`` ids lie wholly within the text, ``tail`` is the text behind them. The text took part of the first
    ``touched`` ids: one more than ``whole`` where it was cut in the middle of a token."""

    whole: int
    touched: int
    tail: str


def keep(
    tokenizer: Tokenizer, ids: Sequence[int], text: str, stop_match: str | int | None, params: SamplingParams
) -> Kept:
    """What of ``ids``, all that were sampled, stands for ``text``, cut before ``stop_match`` or, with ``include_stop``,
    after it.

    A text that no stop string cut keeps its ids as they are, a character left unfinished at the end included. The token
    that ended it stays only if it shows.
    """
    if isinstance(stop_match, str):
        return _cut(tokenizer, ids, text, params.skip_special_tokens)
    count = len(ids) - (stop_match is not None and not _shows(tokenizer, stop_match, params))
    return Kept(count, count, "")


def _shows(tokenizer: Tokenizer, stop: int, params: SamplingParams) -> bool:
    return params.include_stop and not (params.skip_special_tokens and tokenizer.is_special(stop))


def _cut(tokenizer: Tokenizer, ids: Sequence[int], text: str, skip_special: bool) -> Kept:
    """Counts characters as the text was decoded: bytes that are no UTF-8 became U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    whole = covered = characters = 0
    for touched, token in enumerate(ids, 1):
        if not (skip_special and tokenizer.is_special(token)):
            characters += len(decoder.decode(tokenizer.token_bytes(token)))
        if characters > len(text):
            return Kept(whole, touched if covered < len(text) else whole, text[covered:])
        if not decoder.getstate()[0]:  # no character is unfinished
            whole, covered = touched, characters
    return Kept(whole, len(ids) if covered < len(text) else whole, text[covered:])
