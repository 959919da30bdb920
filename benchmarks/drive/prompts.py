"""Prompts of a wanted number of tokens. Owns the words they are made of; knows no rows and no servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from drive.client import Prompt

WORDS = """
about above across after again against age air all almost alone along already also always among animal another answer any
area arm around art ask back bad ball bank base beautiful because become before began begin behind being believe below best
better between big bird black blood blue board boat body book both bottom box boy bread break bring brother brown build
built business call came car care carry case cat catch cause cell center change check child children church city class
clear close cold color come common company complete corner could country course cover cross cut dark daughter day dead deal
death decide deep did different dinner doctor does dog door down draw dream dress drive drop dry during each early earth
east easy eat edge effect eight either else end enough even evening ever every example eye face fact fall family far farm
fast father feel feet fell felt few field fight figure fill final find fine finger fire first fish five floor flow food
foot force form forward found four free friend from front full game garden gave general get girl give glass go gold gone
good got great green ground group grow had hair half hand happen happy hard has hat head hear heart heat heavy help her
here high hill him his history hold hole home hope horse hospital hot hour house how hundred ice idea if inside island
""".split()  # noqa: SIM905  a literal would take a line for each word
"""Common words: with most tokenizers each is a token."""


class PromptMaker(Protocol):
    """Draws the parts of prompts, and joins them."""

    def draw(self, random: Random, tokens: int) -> list[Any]:
        """A part of about ``tokens`` tokens."""

    def join(self, parts: Sequence[Any]) -> Prompt:
        """A prompt of parts that stand one after the other in one list."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Random words, which any server takes. ``tokens_per_word`` is what its tokenizer makes of them."""

    tokens_per_word: float

    def draw(self, random: Random, tokens: int) -> list[str]:
        return random.choices(WORDS, k=max(1, round(tokens / self.tokens_per_word)))

    def join(self, parts: Sequence[str]) -> str:
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Random ids from ``low`` to ``high`` - 1: exact sizes, and nothing to tokenize."""

    low: int
    high: int

    def draw(self, random: Random, tokens: int) -> list[int]:
        return random.choices(range(self.low, self.high), k=tokens)

    def join(self, parts: Sequence[int]) -> list[int]:
        return list(parts)
