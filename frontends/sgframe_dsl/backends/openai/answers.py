"""Answers, whole or in chunks → outputs of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sgframe.constraints import read_choices
from sgframe.messages import Logprobs, ints
from sgframe.sampling import SamplingParams
from sgframe_dsl.backends.openai.protocol import UNTOLD, Answer, Choice, ChoiceLogprobs, Usage
from sgframe_dsl.errors import BackendError
from sgframe_programs.parts import Cost, Generated, Output


@dataclass
class _Growing:
    """An output as far as it has come."""

    text: str = ""
    finish_reason: str | None = None
    stop_match: str | int | None = None
    logprobs: list[Logprobs] = field(default_factory=list)

    def add(self, choice: Choice) -> None:
        self.text += choice.piece
        if choice.logprobs is not None:
            self.logprobs += _logprobs(choice.logprobs)
        if choice.finish_reason is not None:
            self.finish_reason = choice.finish_reason
            self.stop_match = choice.stop_reason if choice.matched_stop is None else choice.matched_stop


class Outputs:
    """Collects the outputs that ``params`` ask for. ``on_text`` hears the pieces of the first."""

    def __init__(self, params: SamplingParams, on_text: Callable[[str], None] | None) -> None:
        self._params = params
        self._on_text = on_text
        self._outputs = [_Growing() for _ in range(params.n)]
        self._usage = Usage()

    def add(self, answer: Answer) -> None:
        """The whole answer, or its next chunk."""
        self._usage = answer.usage or self._usage
        for choice in answer.choices:
            if choice.index >= len(self._outputs):
                raise BackendError(f"the endpoint gave output {choice.index} where {self._params.n} were asked for")
            self._outputs[choice.index].add(choice)
            if self._on_text is not None and choice.index == 0 and choice.piece:
                self._on_text(choice.piece)

    def generated(self, rendered: str) -> Generated:
        """All outputs. Raises BackendError when one is not complete, or none of the choices that were asked for."""
        for number, output in enumerate(self._outputs):
            self._check(number, output)
        details = self._usage.sgframe
        cost = Cost(
            self._usage.prompt_tokens,
            self._usage.cached_tokens,
            self._usage.completion_tokens or 0,
            details.forced_tokens,
            cache_reason=details.cache.reason,
        )
        return Generated(list(map(self._output, self._outputs)), cost, rendered, details.approximations)

    def _output(self, growing: _Growing) -> Output:
        assert growing.finish_reason is not None
        logprobs = None if self._params.logprobs is None else growing.logprobs
        return Output(growing.text, [], growing.finish_reason, growing.stop_match, logprobs)

    def _check(self, number: int, output: _Growing) -> None:
        if output.finish_reason is None:
            raise BackendError(
                f"the endpoint ended its answer before output {number + 1} of {self._params.n} was complete"
            )
        if output.finish_reason not in ("stop", "length"):
            raise BackendError(
                f"the endpoint ended an output for the reason {output.finish_reason!r}: {output.text[:60]!r}"
            )
        constraint = self._params.constraint
        if constraint is None or constraint.kind != "choice":
            return
        if not any(choice.startswith(output.text) for choice in read_choices(constraint.text)):
            raise BackendError(
                f"the endpoint answered {output.text[:60]!r}, which is none of the choices; it seems to ignore "
                "structured_outputs, so regex and choices cannot be asked of it"
            )


def _logprobs(told: ChoiceLogprobs) -> list[Logprobs]:
    """Of a chat's tokens or a text's. Ids are not told; of what was likely the probabilities are, best first."""
    if told.content is not None:
        return [
            _entry(token.logprob, [other.logprob for other in token.top_logprobs], token.forced)
            for token in told.content
        ]
    top = told.top_logprobs or [None] * len(told.token_logprobs)
    forced = told.forced or [False] * len(told.token_logprobs)
    return [
        _entry(logprob, list((others or {}).values()), by_grammar)
        for logprob, others, by_grammar in zip(told.token_logprobs, top, forced, strict=False)
        if logprob is not None
    ]


def _entry(logprob: float, top: list[float], forced: bool) -> Logprobs:
    return Logprobs(UNTOLD, logprob, ints([UNTOLD] * len(top)), sorted(top, reverse=True), forced)
