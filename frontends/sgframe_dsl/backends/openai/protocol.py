"""OpenAI's answers and errors, as far as they are read here, with what vLLM, SGLang and sgframe add."""

from __future__ import annotations

from typing import Any

import msgspec

UNTOLD = -1
"""Stands for the id of a token: the protocol tells texts of tokens only."""


class TokenLogprob(msgspec.Struct):
    """Of a chat answer's token, or of one that was likely in its place."""

    logprob: float
    top_logprobs: list[TokenLogprob] = []
    forced: bool = False


class ChoiceLogprobs(msgspec.Struct):
    """``content`` in a chat; otherwise parallel lists, in which the first token of an echoed prompt may have None."""

    content: list[TokenLogprob] | None = None
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None
    forced: list[bool] | None = None


class Content(msgspec.Struct):
    """A chat message, or a piece of one."""

    content: str | None = None


class Choice(msgspec.Struct):
    """An output or a piece of one. What stopped it is in ``matched_stop`` (sgframe, SGLang) or ``stop_reason`` (vLLM)."""

    index: int
    text: str | None = None
    message: Content | None = None
    delta: Content | None = None
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str | None = None
    matched_stop: str | int | None = None
    stop_reason: str | int | None = None

    @property
    def piece(self) -> str:
        """Its text, whichever endpoint it came from."""
        spoken = self.message or self.delta
        return (spoken.content if spoken else self.text) or ""


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class CacheDetails(msgspec.Struct):
    reason: str = ""


class SgframeDetails(msgspec.Struct):
    """What sgframe's servers tell beside."""

    cache: CacheDetails = msgspec.field(default_factory=CacheDetails)
    forced_tokens: int = 0
    approximations: tuple[str, ...] = ()


class Usage(msgspec.Struct):
    """Tokens of one request, all its prompts and outputs together."""

    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptDetails | None = None
    sgframe: SgframeDetails = msgspec.field(default_factory=SgframeDetails)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that were reused; None when the endpoint does not tell."""
        return self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None


class Answer(msgspec.Struct):
    """A whole answer, or a chunk of a streamed one; either may be an error instead."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None


class Model(msgspec.Struct):
    id: str


class Models(msgspec.Struct):
    data: list[Model]


class Fault(msgspec.Struct):
    """What an error says. ``message`` is never empty."""

    message: str
    param: str | None = None
    code: str | None = None


def read_fault(body: bytes) -> Fault | None:
    """The error in ``body``: OpenAI's envelope, or the bare object or text that some servers put in its place."""
    try:
        raw = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return fault_of(raw.get("error", raw)) if isinstance(raw, dict) else None


def fault_of(error: Any) -> Fault | None:
    """The same of the ``error`` itself."""
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict) or not isinstance(message := error.get("message"), str) or not message:
        return None
    texts = {name: value for name in ("param", "code") if isinstance(value := error.get(name), str)}
    return Fault(message, **texts)
