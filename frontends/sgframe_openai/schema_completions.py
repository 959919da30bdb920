"""The body of /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgframe.errors import RequestError
from sgframe.sampling import MAX_N, SamplingParams
from sgframe_openai.schema import GenerationBody, within

MAX_OUTPUTS = 2048
"""Most outputs, over all prompts, that one request may ask for."""

MAX_LOGPROBS = 5
DEFAULT_MAX_TOKENS = 16

Prompt = str | Sequence[int]


class CompletionBody(GenerationBody, kw_only=True):
    """``max_tokens`` is 16 unless given (as OpenAI has it); 0 computes the prompt only. ``logprobs`` is at most 5."""

    prompt: str | list[str | int | list[int]]
    max_tokens: int = DEFAULT_MAX_TOKENS
    echo: bool = False
    logprobs: int | None = None
    best_of: int | None = None

    def check(self) -> None:
        super().check()
        if self.logprobs is not None:
            within("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.best_of is not None:
            within("best_of", self.best_of, self.n, MAX_N)
            if self.stream and self.best_of != self.n:
                raise RequestError(
                    "best_of above n cannot be streamed: the best are known only at the end", param="best_of"
                )

    def prompts(self) -> list[Prompt]:
        """The prompts in order: one text, texts, one list of token ids, or lists of token ids. Raises RequestError."""
        many: list[Any] = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        if many and all(isinstance(item, int) for item in many):
            many = [many]
        if any(isinstance(item, int) for item in many) or len({type(item) for item in many}) > 1:
            raise RequestError("prompt mixes kinds: send texts, token ids or lists of token ids", param="prompt")
        if not many or not all(many):
            raise RequestError("prompt is empty; there is nothing to continue", param="prompt")
        if len(many) * self.candidates > MAX_OUTPUTS:
            raise RequestError(
                f"{len(many)} prompts with {self.candidates} outputs each: at most {MAX_OUTPUTS} outputs are allowed",
                param="prompt",
            )
        return many

    @property
    def candidates(self) -> int:
        """How many outputs are generated for each prompt."""
        return self.best_of or self.n

    def sampling(self) -> SamplingParams:
        ranked = self.candidates > self.n
        return SamplingParams(
            **{**self.shared_sampling(), "n": self.candidates},
            max_tokens=self.max_tokens,
            logprobs=0 if ranked and self.logprobs is None else self.logprobs,
            prompt_logprobs=self.logprobs if self.echo else None,
        )

    def client_names(self) -> Mapping[str, str]:
        own = {"prompt_logprobs": "logprobs"} | ({"n": "best_of"} if self.best_of else {})
        return {**super().client_names(), **own}
