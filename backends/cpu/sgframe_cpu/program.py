"""A whole step as one program: the model's code runs once on tensors that nobody fills, and what it launches is recorded.

Walking a recording costs 0.03 µs a launch, starting the same kernels from Python 10 to 20 µs: 270 of them make a step of
this size of model.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sgframe_cpu.team import Recording, Team
from sgframe_torch.ops import Head, Hidden
from sgframe_torch.rows import StepInputs


class StepProgram:
    """Computes the same as ``hidden`` for steps of up to ``most_tokens`` tokens; larger ones go to ``hidden`` itself. The
    next step overwrites what it gives."""

    def __init__(self, hidden: Hidden, team: Team, like: StepInputs, most_tokens: int) -> None:
        self._plain, self._most = hidden, most_tokens
        self._tokens, self._positions, self._slots = (torch.zeros(most_tokens, dtype=torch.int64) for _ in range(3))
        inputs = replace(like, tokens=self._tokens, positions=self._positions, slots=self._slots)
        with team.record(most_tokens) as self._recording:
            self._hidden = hidden(inputs)

    @property
    def recording(self) -> Recording:
        """What is walked, for whoever times its launches one by one."""
        return self._recording

    def __call__(self, step: StepInputs) -> Tensor:
        count = len(step.tokens)
        if count > self._most:
            return self._plain(step)
        for fixed, values in (
            (self._tokens, step.tokens),
            (self._positions, step.positions),
            (self._slots, step.slots),
        ):
            fixed[:count] = values
        self._recording(count)
        return self._hidden[:count]


class HeadProgram:
    """Computes the same as ``head`` for up to ``most`` hidden states like ``like`` [n, hidden]; more go to ``head`` itself.
    The next call overwrites what it gives."""

    def __init__(self, head: Head, team: Team, like: Tensor, most: int) -> None:
        self._plain, self._most = head, most
        self._states = torch.zeros(most, like.shape[-1], dtype=like.dtype)
        with team.record(most) as self._recording:
            self._logits = head(self._states)

    def __call__(self, states: Tensor) -> Tensor:
        count = len(states)
        if count > self._most:
            return self._plain(states)
        self._states[:count] = states
        self._recording(count)
        return self._logits[:count]
