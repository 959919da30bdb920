"""The virtual device: answers a step's batch, and says what work it was. Looks at no slot and no token it is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgframe.messages import Ints, ScheduleBatch, StepOutput, ints


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
        self._token = np.zeros(max_running, dtype=np.int32)  # by row
        self._context = np.zeros(max_running, dtype=np.int64)  # by row: tokens whose KV is there
        self._first_token = first_token

    def execute(self, batch: ScheduleBatch) -> Work:
        """Compute ``batch``."""
        for new in batch.admitted:
            self._token[new.row] = self._first_token + new.sampling.seed
            self._context[new.row] = len(new.slots)
        rows, counts, samples = (
            np.frombuffer(part, dtype=np.int32) for part in (batch.rows, batch.counts, batch.samples)
        )
        self._context[rows] += counts
        decoding = rows[counts == 1]
        context = int(self._context[decoding].sum())
        sampled = rows[samples.astype(bool)]
        output = StepOutput(batch.step, _ints(sampled), _ints(self._token[sampled]))
        return Work(int(counts.sum()) - len(decoding), len(decoding), context, output)

    def skip(self, batch: ScheduleBatch, steps: int) -> None:
        """Compute as many further decode steps of the rows of ``batch``."""
        self._context[np.frombuffer(batch.rows, dtype=np.int32)] += steps


def _ints(values: NDArray[np.int32]) -> Ints:
    result = ints()
    result.frombytes(values.tobytes())
    return result
