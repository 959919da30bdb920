"""A trace in memory: who asks when, for how much, and which prompts begin alike. Knows no file format and no scheduler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgframe.messages import Ints, ints

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in the order of the file.

    Attributes:
        block: tokens of a whole block.
        arrivals: seconds since the first.
        input_lengths: prompt tokens.
        output_lengths: tokens generated.
        blocks: the block ids of all prompts, end to end: 0 … ``distinct`` - 1. An id names a block together with all that
            stands before it.
        starts: request i has ``blocks[starts[i]:starts[i + 1]]``; one entry more than there are requests.
        distinct: how many block ids there are.
    """

    block: int
    arrivals: NDArray[np.float64]
    input_lengths: Int64s
    output_lengths: Int64s
    blocks: NDArray[np.int32]
    starts: Int64s
    distinct: int

    def __len__(self) -> int:
        return len(self.arrivals)

    def first(self, count: int) -> Trace:
        """The first ``count`` requests (all, if there are fewer)."""
        end = self.starts[min(count, len(self))]
        return Trace(
            self.block,
            self.arrivals[:count],
            self.input_lengths[:count],
            self.output_lengths[:count],
            self.blocks[:end],
            self.starts[: count + 1],
            self.distinct,
        )

    def blocks_of(self, request: int) -> NDArray[np.int32]:
        """The block ids of a prompt. The last block may be shorter than the others, or be missing."""
        return self.blocks[self.starts[request] : self.starts[request + 1]]

    def prompt(self, request: int) -> Ints:
        """Token ids of a prompt: each block's id as often as it has tokens, then ``own_token`` for what no block names."""
        length = int(self.input_lengths[request])
        tokens = repeated(self.blocks_of(request), self.block, length)
        return tokens + ints([self.own_token(request)]) * (length - len(tokens))

    def own_token(self, request: int) -> int:
        """The token that stands for whatever this request shares with no other: its output, and the end of its prompt."""
        return self.distinct + request


def repeated(blocks: NDArray[np.int32], times: int, length: int) -> Ints:
    """Each of ``blocks`` as ``times`` equal tokens, cut to ``length``."""
    tokens = ints()
    tokens.frombytes(np.repeat(blocks, times)[:length].tobytes())
    return tokens
