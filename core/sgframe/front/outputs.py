"""What the engine hands to its callers."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

import msgspec

from sgframe.messages import CacheReport, Logprobs


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts of one output. ``cached_tokens`` of the prompt were found in the cache and not computed again;
    ``cache`` tells why no more, from the output's first piece on. ``forced_tokens`` of the completion were written by
    the grammar alone, without asking the model."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache: CacheReport | None = None
    forced_tokens: int = 0


class Delta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of one output of a generation; the last piece of each output has a ``finish_reason``.

    Attributes:
        index: which of the ``n`` outputs.
        text: new text, whole characters only. Text that could still become a stop string is held back until it cannot.
        tokens: new token ids; their text may come with a later piece.
        logprobs: one entry per element of ``tokens``, if asked for.
        prompt_logprobs: entries for prompt tokens 1 …, if asked for: in the first piece of the first output.
        finish_reason: ``stop``, ``length`` or ``abort``; None while the output goes on.
        stop_match: what ended the output, if it was a stop string (str) or a stop or end-of-sequence token (int).
        abort_cause: why, when ``finish_reason`` is ``abort``.
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
    abort_cause: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """One whole output: the pieces of its Deltas put together."""

    index: int
    text: str
    tokens: tuple[int, ...]
    usage: Usage
    finish_reason: str
    stop_match: str | int | None
    logprobs: tuple[Logprobs, ...] | None
    prompt_logprobs: tuple[Logprobs, ...] | None


@dataclass(frozen=True, slots=True)
class Result:
    """What one prompt gave: ``n`` outputs, in the order of their index."""

    prompt_tokens: tuple[int, ...]
    outputs: tuple[Output, ...]

    @property
    def text(self) -> str:
        """The first output's text."""
        return self.outputs[0].text


async def collect(deltas: AsyncIterable[Delta]) -> tuple[Output, ...]:
    """Put the pieces of a whole generation together, ordered by index."""
    pieces: dict[int, list[Delta]] = {}
    async for delta in deltas:
        pieces.setdefault(delta.index, []).append(delta)
    return tuple(_join(pieces[index]) for index in sorted(pieces))


def _join(deltas: Sequence[Delta]) -> Output:
    last = deltas[-1]
    assert last.finish_reason is not None
    prompt_logprobs = [delta.prompt_logprobs for delta in deltas if delta.prompt_logprobs is not None]
    return Output(
        index=last.index,
        text="".join(delta.text for delta in deltas),
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        usage=last.usage,
        finish_reason=last.finish_reason,
        stop_match=last.stop_match,
        logprobs=_concatenated([delta.logprobs for delta in deltas if delta.logprobs is not None]),
        prompt_logprobs=_concatenated(prompt_logprobs),
    )


def _concatenated(parts: Sequence[tuple[Logprobs, ...]]) -> tuple[Logprobs, ...] | None:
    return tuple(entry for part in parts for entry in part) if parts else None
