"""What the engine hands to its callers."""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.messages import Logprobs


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one output. ``cached_tokens`` of the prompt were found in the cache and not computed again."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Delta:
    """The next piece of one output of a generation; the last piece of each output has a ``finish_reason``.

    Attributes:
        index: which of the ``n`` outputs.
        text: new text, whole characters only. Text that could still become a stop string is held back until it cannot.
        tokens: new token ids; their text may come with a later piece.
        logprobs: one entry per element of ``tokens``, if asked for.
        prompt_logprobs: entries for prompt tokens 1 …, in one piece of the output only, if asked for.
        finish_reason: ``stop``, ``length`` or ``abort``; None while the output goes on.
        stop_match: what ended the output, if it was a stop string (str) or a stop or end-of-sequence token (int).
        usage: counts up to and including this piece.
    """

    index: int
    text: str
    tokens: tuple[int, ...]
    usage: Usage
    logprobs: tuple[Logprobs, ...] | None = None
    prompt_logprobs: tuple[Logprobs, ...] | None = None
    finish_reason: str | None = None
    stop_match: str | int | None = None
