"""What a program says to whoever runs it, and what it hears back: plain data, the same in one process and over a wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from sgframe.messages import Logprobs

Method = Literal["token_length_normalized", "greedy_token", "unconditional_normalized"]
"""How ``select`` compares its choices, see ``sgframe_programs.scoring``."""


class Text(msgspec.Struct, frozen=True, tag=True):
    """Plain text. Texts that meet are tokenised together."""

    text: str


class Begin(msgspec.Struct, frozen=True, tag=True):
    """A chat turn of ``role`` begins: what the model's template puts before its content."""

    role: str


class End(msgspec.Struct, frozen=True, tag=True):
    """The open chat turn ends: what the template puts after its content."""


class Branch(msgspec.Struct, frozen=True, tag=True):
    """What the state ``state`` holds beyond the point at which it was forked, token by token."""

    state: int


Part = Text | Begin | End | Branch


class Cost(msgspec.Struct, frozen=True):
    """What one call took. Of ``prompt_tokens``, all that stood before the answer, ``cached_tokens`` were reused and the
    others computed; of ``output_tokens``, ``forced_tokens`` were written by the grammar alone. ``scored_tokens`` are those
    that ``select`` computed beyond the prompt.

    ``cache_reason`` tells why no more was cached, see ``sgframe.messages.CacheReport``. Endpoints that tell nothing of
    their cache give None for ``cached_tokens``.
    """

    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int = 0
    forced_tokens: int = 0
    scored_tokens: int = 0
    cache_reason: str = ""


class Output(msgspec.Struct, frozen=True):
    """One answer. ``tokens`` are those of ``text``; ``finish_reason`` is ``stop`` or ``length``, ``stop_match`` the stop
    string or token that ended it."""

    text: str
    tokens: list[int]
    finish_reason: str
    stop_match: str | int | None = None
    logprobs: list[Logprobs] | None = None


class Generated(msgspec.Struct, frozen=True):
    """The answer to ``generate``: as many outputs as were asked for; the state goes on with the first.

    ``rendered`` is the text of the parts that were sent along, as the model saw it; ``approximations`` tell where the
    output may deviate from its constraint.
    """

    outputs: list[Output]
    cost: Cost
    rendered: str
    approximations: tuple[str, ...] = ()


class Selected(msgspec.Struct, frozen=True):
    """The answer to ``select``: the state goes on with choice ``index``.

    For each choice its ``scores`` by the method, its tokens, and the natural-log probability of each of these after those
    before it (``logprobs``). ``unconditional`` are the same after nothing, where the method asks for them.
    """

    index: int
    scores: list[float]
    tokens: list[list[int]]
    logprobs: list[list[float]]
    cost: Cost
    rendered: str
    unconditional: list[list[float]] | None = None
