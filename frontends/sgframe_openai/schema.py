"""The fields that chat and text completions share, and how they become SamplingParams."""

from __future__ import annotations

from typing import Any

import msgspec

from sgframe.errors import RequestError
from sgframe.messages import Namespace
from sgframe.sampling import MAX_N
from sgframe_openai.structured import StructuredBody

MAX_PRIORITY = 2**31 - 1

_PASSED_ON = (
    "n",
    "temperature",
    "top_p",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "ignore_eos",
    "seed",
    "skip_special_tokens",
)


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """``include_usage``: one more chunk with the usage at the end. ``continuous_usage_stats``: usage so far in every
    chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class GenerationBody(StructuredBody, kw_only=True):
    """Beside OpenAI's fields: ``top_k`` (0 or -1: off), ``min_p``, ``repetition_penalty``, ``ignore_eos``,
    ``stop_token_ids``, ``skip_special_tokens``, ``include_stop_str_in_output``, ``priority`` (larger is more urgent) and
    ``cache_salt`` (prefixes are reused only between requests of one salt)."""

    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[str, float] = msgspec.field(default_factory=dict)
    stop: str | list[str] = msgspec.field(default_factory=list)
    stop_token_ids: list[int] = msgspec.field(default_factory=list)
    ignore_eos: bool = False
    seed: int | None = None
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    priority: int = 0
    cache_salt: str | None = None

    def check(self) -> None:
        """Raise RequestError for what the types cannot say and the engine cannot know."""
        if self.stream_options is not None and not self.stream:
            raise RequestError("stream_options needs stream: true", param="stream_options")
        if self.options.include_obfuscation:
            raise RequestError(
                "stream_options.include_obfuscation is not offered by this server",
                param="stream_options.include_obfuscation",
            )
        within("n", self.n, 1, MAX_N)
        within("priority", self.priority, -MAX_PRIORITY, MAX_PRIORITY)

    @property
    def options(self) -> StreamOptions:
        """The stream options, whether sent or not."""
        return self.stream_options or StreamOptions()

    @property
    def namespace(self) -> Namespace:
        """Where prefixes are shared; an empty salt differs from none."""
        return () if self.cache_salt is None else (("salt", self.cache_salt),)

    def shared_sampling(self) -> dict[str, Any]:
        """Arguments of SamplingParams from the shared fields."""
        return {
            **{name: getattr(self, name) for name in _PASSED_ON},
            "top_k": 0 if self.top_k == -1 else self.top_k,
            "stop": (self.stop,) if isinstance(self.stop, str) else tuple(self.stop),
            "stop_token_ids": tuple(self.stop_token_ids),
            "include_stop": self.include_stop_str_in_output,
            "logit_bias": _token_ids(self.logit_bias),
            "constraint": self.constraint(),
        }


def within(name: str, value: int, low: int, high: int) -> None:
    """Raise RequestError unless low ≤ value ≤ high."""
    if not low <= value <= high:
        raise RequestError(f"{name} must be from {low} to {high}, found {value}", param=name)


def _token_ids(bias: dict[str, float]) -> dict[int, float]:
    for key in bias:
        if not (key.isascii() and key.isdecimal() and len(key) < 20):
            raise RequestError(f"logit_bias: keys are token ids, found {key!r}", param="logit_bias")
    return {int(key): value for key, value in bias.items()}
