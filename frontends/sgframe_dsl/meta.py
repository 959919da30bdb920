"""What is known of how a value came about, beside the value. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.messages import Logprobs
from sgframe_programs.parts import Cost, Generated, Output, Selected


@dataclass(frozen=True, slots=True)
class Meta:
    """What the call took; see ``sgframe_programs.parts.Cost``."""

    cost: Cost

    @property
    def prompt_tokens(self) -> int:
        """Tokens that stood before the answer."""
        return self.cost.prompt_tokens

    @property
    def cached_tokens(self) -> int | None:
        """Those of them that were reused; None when the endpoint does not tell."""
        return self.cost.cached_tokens


@dataclass(frozen=True, slots=True)
class GenMeta(Meta):
    """Of a ``gen``. What is said of one output is said of the first; with ``n`` all are in ``outputs``.

    ``approximations`` tell where the output may deviate from its constraint.
    """

    outputs: tuple[Output, ...]
    approximations: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text as it was generated."""
        return self.outputs[0].text

    @property
    def tokens(self) -> list[int]:
        """The token ids of ``text``."""
        return self.outputs[0].tokens

    @property
    def logprobs(self) -> list[Logprobs] | None:
        """One entry for each token, if the ``gen`` asked for ``logprobs``."""
        return self.outputs[0].logprobs

    @property
    def finish_reason(self) -> str:
        """``stop``, or ``length`` when ``max_tokens`` or the context ended it."""
        return self.outputs[0].finish_reason

    @property
    def stop_match(self) -> str | int | None:
        """The stop string or token id that ended it."""
        return self.outputs[0].stop_match

    @property
    def output_tokens(self) -> int:
        """Tokens generated."""
        return self.cost.output_tokens

    @property
    def forced_tokens(self) -> int:
        """Tokens that the grammar wrote alone."""
        return self.cost.forced_tokens


@dataclass(frozen=True, slots=True)
class SelectMeta(Meta):
    """Of a ``select``: by choice its score, its tokens, and the natural-log probability of each of these.

    ``unconditional`` are the log-probabilities after nothing, where the method asks for them.
    """

    text: str
    scores: dict[str, float]
    tokens: dict[str, list[int]]
    logprobs: dict[str, list[float]]
    unconditional: dict[str, list[float]] | None


def of_gen(generated: Generated) -> GenMeta:
    """What a backend said of a ``gen``."""
    return GenMeta(generated.cost, tuple(generated.outputs), generated.approximations)


def of_select(choices: tuple[str, ...], selected: Selected) -> SelectMeta:
    """What a backend said of a ``select`` from ``choices``."""
    unconditional = selected.unconditional
    return SelectMeta(
        cost=selected.cost,
        text=choices[selected.index],
        scores=dict(zip(choices, selected.scores, strict=True)),
        tokens=dict(zip(choices, selected.tokens, strict=True)),
        logprobs=dict(zip(choices, selected.logprobs, strict=True)),
        unconditional=dict(zip(choices, unconditional, strict=True)) if unconditional is not None else None,
    )
