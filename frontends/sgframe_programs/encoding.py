"""Texts to token ids, for prompts that grow: at their start, in their middle, and where a choice meets what is before it.

The ids are those of the whole text, but what is known of its beginning is not found out again: a long text that goes on
is encoded again from a word near its end only. Knows the tokenizer and no states.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from sgframe.front.tokenizer_manager import LONG_TEXT
from sgframe.interfaces.source import Tokenizer
from sgframe.messages import Ints, ints
from sgframe.prefixes import common_length

T = TypeVar("T")
LONG_PIECE, MOST_PIECES = 1024, 16
"""Characters from which a piece of a text is encoded for itself and remembered; how many of them a text may have."""
REMEMBERED = 64
SEAM, WIDEST_SEAM = 64, 512
"""Bytes before the end of a text from where it is encoded again when it goes on: at least, and at most."""
_LEADS = ("\n", "a", ";")
"""Texts behind which a tokenizer that puts a space before every text has put it already."""


@dataclass(frozen=True, slots=True)
class Junction:
    """``shared`` are the ids that a text has whichever choice follows it; ``paths`` how each choice goes on from there,
    at least one id. A path may begin with the end of the text, where that is one token with the choice's beginning."""

    shared: list[int]
    paths: list[list[int]]


class Encoder:
    """``start`` are the ids that the model expects before a plain text (BOS); ``start_text`` is their text.

    Texts come in the pieces that they grew by, which changes nothing but the time: those that begin with the same long
    pieces share the work. ``at_start`` tells that nothing stands before a text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        plain, whole = tokenizer.encode("a", add_special_tokens=False), tokenizer.encode("a")
        places = range(len(whole) - len(plain) + 1)
        before = next((place for place in places if whole[place : place + len(plain)] == plain), 0)
        self.start = tuple(whole[:before])
        self._tokenizer = tokenizer
        self.start_text = self._bytes(self.start).decode()
        leads = [(lead, self._encode(lead)) for lead in _LEADS]
        self._leads = leads if self._bytes(plain) != b"a" else []
        self._known = lru_cache(REMEMBERED)(self._grown)

    async def encode(self, pieces: Sequence[str], *, at_start: bool) -> Ints:
        """The ids of the pieces' text."""
        return await _aside(lambda: self._whole(pieces, at_start), sum(map(len, pieces)))

    async def junction(self, pieces: Sequence[str], choices: Sequence[str], *, at_start: bool) -> Junction:
        """How the pieces' text goes on with each of ``choices``, none of them empty: each pair encoded as one text."""

        def work() -> Junction:
            whole = self._whole(pieces, at_start)
            joint = [self._extended(pieces, whole, choice, at_start) for choice in choices]
            shared = min(min(common_length(whole, ids), len(ids) - 1) for ids in joint)
            return Junction(list(whole[:shared]), [list(ids[shared:]) for ids in joint])

        return await _aside(work, sum(map(len, pieces)) * len(choices) + sum(map(len, choices)))

    def _whole(self, pieces: Sequence[str], at_start: bool) -> Ints:
        grouped = _grouped(pieces)
        return (self._known if len(grouped[0]) >= LONG_PIECE else self._grown)(grouped, at_start)

    def _grown(self, pieces: tuple[str, ...], at_start: bool) -> Ints:
        *before, last = pieces
        if before:
            return self._extended(before, self._known(tuple(before), at_start), last, at_start)
        return self._encode(last) if at_start else self._encode_middle(last)

    def _extended(self, pieces: Sequence[str], ids: Ints, more: str, at_start: bool) -> Ints:
        """The ids of the pieces' text, whose own are ``ids``, with ``more`` behind it.

        No token spans the end of a word and the space before the next, so that the ids before such a seam stay.
        """
        seam = self._seam(ids)
        text = self._bytes(ids[seam:]).decode("utf-8", "replace") if seam else ""
        if text and self._encode_middle(text) == ids[seam:]:
            return ids[:seam] + self._encode_middle(text + more)
        whole = "".join((*pieces, more))
        return self._encode(whole) if at_start else self._encode_middle(whole)

    def _seam(self, ids: Ints) -> int:
        """The last id that begins a word with the space before it, some way before the end; 0 if there is none."""
        end = b""
        for seam in range(len(ids) - 1, 0, -1):
            end = self._tokenizer.token_bytes(ids[seam]) + end
            if len(end) > WIDEST_SEAM:
                break
            before = self._tokenizer.token_bytes(ids[seam - 1])
            if len(end) >= SEAM and end[:1] == b" " and end[1:2].isalpha() and before[-1:].isalpha():
                return seam
        return 0

    def _encode(self, text: str) -> Ints:
        return ints(self._tokenizer.encode(text, add_special_tokens=False))

    def _encode_middle(self, text: str) -> Ints:
        for lead, ids in self._leads:
            found = self._encode(lead + text)
            if found[: len(ids)] == ids:
                return found[len(ids) :]
        return self._encode(text)

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._tokenizer.token_bytes, ids))


def _grouped(pieces: Sequence[str]) -> tuple[str, ...]:
    """The same text in fewer pieces: all but the last are long. Texts that begin alike are cut alike."""
    groups: list[list[str]] = [[]]
    length = 0
    for piece in pieces:
        groups[-1].append(piece)
        length += len(piece)
        if length >= LONG_PIECE and len(groups) < MOST_PIECES:
            groups.append([])
            length = 0
    if len(groups) > 1 and not groups[-1]:
        groups.pop()
    return tuple(map("".join, groups))


async def _aside(work: Callable[[], T], characters: int) -> T:
    """What ``work`` gives, which encodes at most so many: found in a thread if they are many, so that other calls go on
    meanwhile."""
    return await asyncio.to_thread(work) if characters > LONG_TEXT else work()
