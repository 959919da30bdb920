"""The choice of tokens and their logprobs on processor cores: hands logits to the compiled kernels.

Agrees with the plain versions in ``sgframe_torch.ops`` and ``sgframe_torch.logprobs``, which define it. A draw differs from
theirs only where the uniform number lies within about 1e-6 of the border between two tokens, or a token that close to
where top-p or min-p cuts.

Of 49,152 tokens in bfloat16, a row on one thread takes (µs; with torch): largest 6 (55), under a mask 7 (190), drawn 25
(350), with top-k 50 and top-p 0.95 13 (890), with top-p alone 35 (2,900), its logprob and five likeliest 25 (380).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sgframe_cpu import sampling_kernels as kernels
from sgframe_cpu.attention import element_of
from sgframe_cpu.sampling_lanes import LANES
from sgframe_cpu.team import Team
from sgframe_torch.drawing import DrawTable
from sgframe_torch.logprobs import Ranked

_QUICK = 2
"""Rows that a thread takes at once where it only looks for the largest: two threads are no quicker with 16 rows."""


class Sampling:
    """See DeviceOps."""

    def __init__(self, team: Team) -> None:
        self._team = team

    def choose(self, logits: Tensor, words: Tensor | None, draws: DrawTable | None) -> Tensor:
        logits = _in_chunks(logits)
        output = torch.empty(len(logits), dtype=torch.int64)
        mask, width = (words.data_ptr(), words.shape[1]) if words is not None else (0, 0)
        arguments = logits.data_ptr(), mask, output.data_ptr(), logits.stride(0), logits.shape[1] // LANES, width
        if draws is None:
            self._team.run(kernels.largest(element_of(logits)), len(logits), *arguments, grain=_QUICK)
        else:
            self._team.run(kernels.draw(element_of(logits)), len(logits), *arguments, draws.ctypes.data)
        return output

    def rank(self, logits: Tensor, tokens: Tensor, k: int) -> Ranked:
        logits = _in_chunks(logits)
        found = Ranked(
            torch.empty(len(logits)), torch.empty(len(logits), k, dtype=torch.int64), torch.empty(len(logits), k)
        )
        self._team.run(
            kernels.rank(element_of(logits)),
            len(logits),
            logits.data_ptr(),
            tokens.data_ptr(),
            *(each.data_ptr() for each in found),
            logits.stride(0),
            logits.shape[1] // LANES,
            k,
        )
        return found


def _in_chunks(logits: Tensor) -> Tensor:
    """``logits`` [n, vocab] with as many impossible tokens more as it takes to make the last chunk whole."""
    missing = -logits.shape[1] % LANES
    return F.pad(logits, (0, missing), value=-math.inf) if missing else logits
