"""What a step samples: a token for each row that is due, and one more for each of a row's guesses.

Knows rows and their tokens; nothing of logits, devices or slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgframe.messages import Ints, StepOutput, ints
from sgframe.sampling import TokenSampling
from sgframe_torch.rows import RowTable, Step
from sgframe_torch.sampler import INVALID, RowState

_NONE = ints()


@dataclass(frozen=True, slots=True)
class RowAhead:
    """What the sampler reads of a row, if some guesses are right."""

    tokens: Ints
    prompt_len: int
    sampling: TokenSampling


class Samples:
    """Those of one ``step``, whose earlier ones have all come. ``states`` are what the sampler reads, one for each of them.

    ``kept``, once they have come, are the places of those that rows go on with: not what follows a wrong guess.
    """

    kept: list[int]

    def __init__(self, step: Step, table: RowTable) -> None:
        self._step = step
        self._rows = [(table[number], step.guesses.get(number, _NONE)) for number in dict.fromkeys(step.sampled)]
        self.states: list[RowState] = []
        for row, guesses in self._rows:
            self.states.append(row)
            self.states += [
                RowAhead(row.tokens + guesses[:count], row.prompt_len, row.sampling)
                for count in range(1, 1 + len(guesses))
            ]

    def await_tokens(self) -> None:
        """Let the rows go on before their tokens have come; not those with guesses, which wait for the outcome."""
        for row, guesses in self._rows:
            if not guesses:
                row.await_token()

    def settle(self, tokens: Sequence[int]) -> StepOutput:
        """They have come, one for each of ``states``: the rows learn those they go on with."""
        kept: list[int] = []
        start = 0
        for row, guesses in self._rows:
            end = start + 1 + len(guesses)
            if guesses:
                kept += range(start, start + row.verify(guesses, tokens[start:end]))
            else:
                row.settle(tokens[start])
                kept.append(start)
            start = end
        self.kept = kept
        rows = self._step.sampled
        return StepOutput(
            self._step.batch.step, ints([rows[place] for place in kept]), ints([tokens[place] for place in kept])
        )

    def fail(self) -> None:
        """None will come; the next step may be given already, and goes on with some token."""
        self.await_tokens()
        self.settle([INVALID] * len(self.states))
