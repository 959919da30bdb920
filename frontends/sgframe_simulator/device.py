"""The virtual device: answers a step's batch, and says what work it was. Looks at no slot and no token it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

from sgframe.messages import ScheduleBatch, StepOutput, ints


@dataclass(frozen=True, slots=True)
class Work:
    """A step's: ``prefilled`` tokens of prompts, and ``decoding`` rows, which read ``context`` tokens of KV together.

    ``output`` is what it sampled.
    """

    prefilled: int
    decoding: int
    context: int
    output: StepOutput


class VirtualDevice:
    """Stands where an executor stands. A row's ``sampling.seed`` says which request of the trace it is, and request i
    samples the token ``first_token + i``."""

    def __init__(self, max_running: int, first_token: int) -> None:
        self._token = [0] * max_running  # by row
        self._context = [0] * max_running  # by row: tokens whose KV is there
        self._first_token = first_token

    def execute(self, batch: ScheduleBatch) -> Work:
        """Compute ``batch``."""
        for new in batch.admitted:
            self._token[new.row] = self._first_token + new.sampling.seed
            self._context[new.row] = len(new.slots)
        contexts = self._context
        prefilled = decoding = read = 0
        for row, count in zip(batch.rows, batch.counts, strict=True):  # so few that arrays would not pay
            context = contexts[row] = contexts[row] + count
            if count == 1:
                decoding += 1
                read += context
            else:
                prefilled += count
        sampled = ints(compress(batch.rows, batch.samples))
        output = StepOutput(batch.step, sampled, ints([self._token[row] for row in sampled]))
        return Work(prefilled, decoding, read, output)

    def skip(self, batch: ScheduleBatch, steps: int) -> None:
        """Compute as many further decode steps of the rows of ``batch``."""
        for row in batch.rows:
            self._context[row] += steps
