"""How an output grows: by each sampled token, and by what its grammar forces to follow, or by guesses that proved right.
What comes of it is told the front.

Knows a request's tokens and its guide; nothing of rows, memory or steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from sgframe.messages import Finish, Ints, Logprobs, TokenOutput, ints
from sgframe.scheduler.guides import Guide, GuideFault
from sgframe.scheduler.request import Request

NOT_FINITE = "the model's output was not finite (NaN or infinity)"


def begin(request: Request) -> TokenOutput | None:
    """Append what the grammar forces an output to begin with; None if more is to come, which is then published with it."""
    if not request.max_tokens or request.sampling.prompt_logprobs >= 0:
        return None
    try:
        finish = _jump(request)
    except GuideFault as fault:
        return ending(request, Finish("error", detail=str(fault)))
    return None if finish is None else _publish(request, finish)


def append(request: Request, token: int, logprobs: Logprobs | None) -> TokenOutput:
    """Append a sampled token and what it forces; ``finish`` tells whether that is the end."""
    if token < 0:
        return ending(request, Finish("error", detail=NOT_FINITE))
    tokens, sampled = request.tokens, len(request.tokens)
    tokens.append(token)
    if request.guide is None:
        finish = _end_at(request, token)
        if (
            finish is None and logprobs is None and request.published > request.prompt_len
        ):  # what nearly all tokens come to
            request.published += 1
            return TokenOutput(request.id, tokens[-1:], request.cached_tokens)
    else:
        try:
            finish = _follow(request, request.guide, token)
        except GuideFault as fault:
            return ending(request, Finish("error", detail=str(fault)))
    return _publish(request, finish, sampled, [logprobs])


def append_verified(request: Request, tokens: Ints, logprobs: Sequence[Logprobs | None]) -> TokenOutput:
    """Append what a step with guesses gave, up to the first token that ends the output. ``logprobs`` may be empty."""
    sampled = len(request.tokens)
    for token in tokens:
        if token < 0:
            return ending(request, Finish("error", detail=NOT_FINITE))
        request.tokens.append(token)
        if (finish := _end_at(request, token)) is not None:
            break
    return _publish(request, finish, sampled, logprobs or [None] * len(tokens))


def confirm(request: Request, token: int) -> TokenOutput | None:
    """The worker sampled a token that was known before it did; its end with an error if it is another one."""
    request.foreseen = False
    known = request.tokens[request.computed]
    if token == known:
        return None
    detail = NOT_FINITE if token < 0 else f"token {token} was sampled where the mask allowed {known} only"
    return ending(request, Finish("error", detail=detail))


def ending(request: Request, finish: Finish) -> TokenOutput:
    """The end of an output that has no more tokens; with the scores of a tree."""
    if finish.reason == "length" and any(map(isnan, request.scores)):
        finish = Finish("error", detail=NOT_FINITE)
    if finish.reason == "error":
        return TokenOutput(request.id, ints(), max(request.cached_tokens, 0), finish=finish)
    return _publish(request, finish)


def _end_at(request: Request, token: int) -> Finish | None:
    """Whether ``token``, the last one, ends an output that no grammar leads."""
    if token in request.stop_ids:
        return Finish("stop", matched=token)
    return Finish("length") if request.output_len >= request.max_tokens else None


def _follow(request: Request, guide: Guide, token: int) -> Finish | None:
    """Whether ``token``, the last one, ends the output; if not, what its grammar forces is appended. Raises GuideFault."""
    if token not in request.stop_ids:
        guide.advance(token)
        return _jump(request)
    if not guide.may_stop():
        raise GuideFault(f"the output was ended by token {token} where its grammar does not allow an end")
    return Finish("stop", matched=token)


def _jump(request: Request) -> Finish | None:
    """Append the tokens that must follow; they are computed with the next step, like any that are known.

    Where a batch in flight is already sampling the first of them, it is foreseen: its mask will leave that one only.
    Raises GuideFault.
    """
    guide = request.guide
    assert guide is not None
    room = request.max_tokens - request.output_len
    if tokens := guide.forced(room):
        request.tokens.extend(tokens)
        if request.promised:
            request.promised, request.foreseen = request.promised - 1, True
    if guide.finished:
        return Finish("stop")
    return Finish("length") if len(tokens) >= room else None


def _publish(
    request: Request, finish: Finish | None, sampled: int = 0, logprobs: Sequence[Logprobs | None] = ()
) -> TokenOutput:
    """Everything that was not published yet. From ``sampled`` on as many tokens as ``logprobs`` came from the model; the
    others were forced."""
    first = request.published == request.prompt_len
    start, request.published = request.published, len(request.tokens)
    tokens = request.tokens[start:]
    asked = dict(zip(range(sampled, request.published), logprobs, strict=False))
    entries = None
    if request.sampling.logprobs >= 0 and tokens:
        entries = [
            asked.get(position) or Logprobs(token, 0.0, ints(), [], forced=True)
            for position, token in enumerate(tokens, start)
        ]
    return TokenOutput(
        id=request.id,
        tokens=tokens,
        cached_tokens=max(request.cached_tokens, 0),
        logprobs=entries,
        prompt_logprobs=request.prompt_logprobs if first and request.sampling.prompt_logprobs >= 0 else None,
        finish=finish,
        cache=request.cache_report if first else None,
        forced=len(tokens) - len(asked),
        scores=request.scores or None,
    )
