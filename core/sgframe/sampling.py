"""Sampling parameters: what a caller may ask of one generation. Validated here, at the door, once."""

from __future__ import annotations

import math

import msgspec

from sgframe.constraints import Constraint
from sgframe.errors import RequestError

MAX_N = 128
MAX_STOP_STRINGS = 64
MAX_STOP_LENGTH = 1024
MAX_LOGIT_BIAS = 1024
MAX_LOGPROBS = 20
SEED_RANGE = 2**63


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How to choose the output tokens of a prompt, and when to stop.

    Attributes:
        n: how many independent outputs to generate.
        max_tokens: most output tokens; None means as many as the context still holds. 0 computes the prompt only.
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_p: keep the smallest set of tokens whose probability reaches it (nucleus sampling, Holtzman et al. 2020).
        top_k: keep the k most likely tokens; 0 keeps all.
        min_p: keep tokens at least this fraction as likely as the likeliest (Nguyen et al. 2024).
        presence_penalty: subtracted once from the logit of each token that was already generated (OpenAI).
        frequency_penalty: subtracted once per earlier generation of the token (OpenAI).
        repetition_penalty: divides positive and multiplies negative logits of tokens in prompt or output
            (Keskar et al. 2019, CTRL); 1 is off.
        logit_bias: token id → value added to its logit.
        stop: strings that end the output; the text is cut before the first match.
        stop_token_ids: further token ids that end the output, beside the model's end-of-sequence ids.
        ignore_eos: do not end at an end-of-sequence id.
        seed: makes the output reproducible; None draws a fresh one.
        logprobs: None for no log-probabilities; k returns the chosen token's and the k likeliest. They are those of
            the model itself, before penalties, bias, temperature and filters.
        prompt_logprobs: the same for the tokens of the prompt; the first token has none.
        skip_special_tokens: leave special tokens (such as ``<|im_end|>``) out of the text.
        include_stop: keep the matched stop string in the text.
        constraint: what the output must match; None for free text.
    """

    n: int = 1
    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    skip_special_tokens: bool = True
    include_stop: bool = False
    constraint: Constraint | None = None

    def validate(self, vocab_size: int) -> None:
        """Raise RequestError, naming the field, for the first value that cannot be honoured."""
        _integer("n", self.n, 1, MAX_N)
        if self.max_tokens is not None:
            _integer("max_tokens", self.max_tokens, 0, SEED_RANGE - 1)
        _number("temperature", self.temperature, 0.0, 100.0)
        _number("top_p", self.top_p, 0.0, 1.0, low_open=True)
        _integer("top_k", self.top_k, 0, SEED_RANGE - 1)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, low_open=True)
        if self.seed is not None:
            _integer("seed", self.seed, -SEED_RANGE, SEED_RANGE - 1)
        for name in ("logprobs", "prompt_logprobs"):
            if (value := getattr(self, name)) is not None:
                _integer(name, value, 0, min(MAX_LOGPROBS, vocab_size))
        self._validate_tokens(vocab_size)
        self._validate_stop()

    def _validate_tokens(self, vocab_size: int) -> None:
        if len(self.logit_bias) > MAX_LOGIT_BIAS:
            raise RequestError(
                f"logit_bias has {len(self.logit_bias)} entries, at most {MAX_LOGIT_BIAS} are allowed",
                param="logit_bias",
            )
        for token, bias in self.logit_bias.items():
            _token("logit_bias", token, vocab_size)
            _number("logit_bias", bias, -100.0, 100.0)
        for token in self.stop_token_ids:
            _token("stop_token_ids", token, vocab_size)

    def _validate_stop(self) -> None:
        if len(self.stop) > MAX_STOP_STRINGS:
            raise RequestError(
                f"stop has {len(self.stop)} strings, at most {MAX_STOP_STRINGS} are allowed", param="stop"
            )
        if any(not isinstance(text, str) or not text for text in self.stop):
            raise RequestError("stop must hold non-empty strings; an empty one would end every output", param="stop")
        if (longest := max(map(len, self.stop), default=0)) > MAX_STOP_LENGTH:
            raise RequestError(
                f"a stop string has {longest} characters, at most {MAX_STOP_LENGTH} are allowed", param="stop"
            )


class TokenSampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of SamplingParams that acts on token ids: what a worker's sampler needs of one row.

    ``logprobs`` and ``prompt_logprobs`` are -1 when not asked for. ``seed`` is always set: the draw for the token at
    position p of the sequence depends on (seed, p) and nothing else, so batching and retraction cannot change it.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    logprobs: int = -1
    prompt_logprobs: int = -1


def _number(name: str, value: object, low: float, high: float, *, low_open: bool = False) -> None:
    valid = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not valid or not (low < value if low_open else low <= value) or value > high:  # type: ignore[operator]
        bracket = "(" if low_open else "["
        raise RequestError(f"{name} must be a number in {bracket}{low:g}, {high:g}], found {value!r}", param=name)


def _integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} must be a whole number from {low} to {high}, found {value!r}", param=name)


def _token(name: str, token: object, vocab_size: int) -> None:
    if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab_size:
        raise RequestError(
            f"{name} names token {token!r}; this model's token ids are 0 to {vocab_size - 1}", param=name
        )
