"""The threads that compute, and what they are told: a launch at once, or a recording of many to be walked in one go.

Owns the memory of tensors that stand in a recording. Knows kernels by their launches only.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from sgframe_cpu.arena import Arena
from sgframe_cpu.launch import Kernel, Launch, Walk
from sgframe_cpu.pool import Ints64

ALONE = 8
"""Up to so many grains run on the calling thread when nothing is recorded: waking the others takes longer."""


class Unrecordable(Exception):
    """What was asked for depends on more than the number of tokens."""


class Team:
    """``threads`` threads, the calling one among them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._tokens = np.zeros(1, np.int64)
        self.recording: Recording | None = None
        self.arena = Arena()
        """For what is read in every step."""

    @property
    def tokens(self) -> int:
        """The address of the number of tokens (int64) of what is being run."""
        return self._tokens.ctypes.data

    def run(self, kernel: Kernel, tokens: int, *arguments: int, unit: int = 1, times: int = 1, grain: int = 1) -> None:
        """Run ``kernel`` over ``ceil(tokens / unit) · times`` items, or record it for any number of tokens."""
        launch = Launch(kernel, arguments, self.tokens, unit, times, grain)
        if self.recording is None:
            self._tokens[0] = tokens
        elif tokens != self.recording.most_tokens:
            raise Unrecordable(f"{tokens} items in a recording for {self.recording.most_tokens} tokens")
        self.start(launch, self._tokens)

    def start(self, launch: Launch, cell: Ints64) -> None:
        """The same for a launch whose ``cell`` is the owner's."""
        if self.recording is not None:
            self.recording.launches.append(launch)
            return
        items = -(-int(cell[0]) // launch.unit) * launch.times
        if self.threads == 1 or items <= ALONE * launch.grain:
            launch.kernel(items, 1, *launch.arguments)
        else:
            launch.run(self.threads)

    def empty(self, *shape: int, like: Tensor) -> Tensor:
        """A new tensor of ``shape``, of the dtype of ``like``."""
        return (
            torch.empty(shape, dtype=like.dtype) if self.recording is None else self.recording.empty(shape, like.dtype)
        )

    @contextmanager
    def record(self, most_tokens: int) -> Iterator[Recording]:
        """Meanwhile nothing is run: launches and tensors go to the recording."""
        recording = self.recording = Recording(most_tokens, self._tokens)
        try:
            yield recording
        finally:
            self.recording = None
        recording.walk = Walk(recording.launches, self.threads)


class Recording:
    """The launches of a step in their order, and the memory that they read and write; run by calling it.

    A tensor's memory is given out again once the recording code has dropped it, as it would be if the code ran.
    """

    walk: Walk

    def __init__(self, most_tokens: int, tokens: Ints64) -> None:
        self.most_tokens = most_tokens
        self.launches: list[Launch] = []
        self._tokens = tokens
        self._free: dict[int, list[np.ndarray]] = {}
        self._blocks: list[np.ndarray] = []

    def __call__(self, tokens: int) -> None:
        """Run what was recorded for the first ``tokens`` tokens of its tensors."""
        self._tokens[0] = tokens
        self.walk()

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        size = int(np.prod(shape)) * dtype.itemsize
        free = self._free.setdefault(size, [])
        if not free:
            self._blocks.append(np.empty(size, np.uint8))
            free.append(self._blocks[-1])
        block = free.pop()
        lent = block[:]  # torch keeps this view for as long as anything refers to the tensor's memory
        weakref.finalize(lent, free.append, block)
        return torch.from_numpy(lent).view(dtype).view(shape)
