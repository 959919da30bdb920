"""How ``select`` compares its choices: a score for each, from the probabilities of its tokens. Pure functions.

A choice is its ``tokens``; ``logprobs`` are the natural-log probabilities of each after the prompt and those before it. The
highest score wins, of equal ones the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgframe_programs.parts import Method

Rows = Sequence[Sequence[float]]
END = -1
"""Stands, in a walk, for not going on as any of the choices."""


def scores(method: Method, tokens: Sequence[Sequence[int]], logprobs: Rows, unconditional: Rows = ()) -> list[float]:
    """Of each choice. ``unconditional`` are the ``logprobs`` after nothing, for ``unconditional_normalized`` alone."""
    match method:
        case "token_length_normalized":
            return [token_length_normalized(row) for row in logprobs]
        case "greedy_token":
            return greedy_token(tokens, logprobs)
        case "unconditional_normalized":
            pairs = zip(logprobs, unconditional, strict=True)
            return [unconditional_normalized(row, alone) for row, alone in pairs]


def best(values: Sequence[float]) -> int:
    """The index of the highest value, of equal ones the first."""
    return max(range(len(values)), key=values.__getitem__)


def token_length_normalized(logprobs: Sequence[float]) -> float:
    """The mean log-probability of a token: long choices are not worse for being long, but predictable endings lift a word
    that is likely nowhere else in it."""
    return math.fsum(logprobs) / len(logprobs)


def unconditional_normalized(logprobs: Sequence[float], unconditional: Sequence[float]) -> float:
    """How much likelier the prompt makes the choice: log P(choice | prompt) - log P(choice), their pointwise mutual
    information (Holtzman et al. 2021, Surface Form Competition)."""
    given = math.fsum(logprobs)
    return given if math.isinf(given) else given - math.fsum(unconditional)


def greedy_token(tokens: Sequence[Sequence[int]], logprobs: Rows) -> list[float]:
    """Walks token by token, as greedy decoding would among the choices; the score is how many tokens a choice stayed.

    Those that go on with the likeliest next token stay. A choice that ends where others go on stays if it is likelier
    that the text goes on as none of them: that counts as one token more.
    """
    stayed = [0.0] * len(tokens)
    left = list(range(len(tokens)))
    for depth in range(max(map(len, tokens)) + 1):
        ways: dict[int, list[int]] = {}
        for choice in left:
            ways.setdefault(tokens[choice][depth] if depth < len(tokens[choice]) else END, []).append(choice)
        likely = {way: math.exp(logprobs[on[0]][depth]) for way, on in ways.items() if way != END}
        likely[END] = 1.0 - math.fsum(likely.values())
        left = ways[max(ways, key=likely.__getitem__)]
        for choice in left:
            stayed[choice] += 1
        if (len(ways) == 1 and END in ways) or len(left) == 1:
            break
    return stayed
