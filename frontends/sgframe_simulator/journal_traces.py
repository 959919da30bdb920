"""Reads a journal as a trace: who asked when, for what, and how long the answers were. Prompts leave as block ids alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from sgframe.errors import ConfigError
from sgframe.journal import FORMAT, Entry, Planned
from sgframe.messages import GenerateRequest, Ints, Namespace, TokenOutput
from sgframe.replay import replay
from sgframe_simulator.trace import Trace

BLOCK = 16
"""Tokens in a block, unless told otherwise. What two prompts share is seen in whole blocks."""


def is_journal(path: Path) -> bool:
    """Whether the file at ``path`` begins like a journal. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return FORMAT.encode() in file.read(64)


def load_journal(path: Path, block: int = BLOCK) -> Trace:
    """The requests of a journal, those that were aborted with the output they had. Raises ConfigError as ``replay`` does."""
    heard = _Listener(block)
    if replay(path, on_entry=heard.entry, on_output=heard.output).difference:
        raise ConfigError(f"{path} cannot be used: this version plans otherwise than the one that recorded it")
    if not heard.requests:
        raise ConfigError(f"{path} holds no requests: record a journal while the server is in use")
    return heard.trace()


class _Listener:
    """Collects a trace from what a replay tells."""

    def __init__(self, block: int) -> None:
        self.requests: list[GenerateRequest] = []
        self._block = block
        self._now: list[float] = []
        self._generated: Counter[int] = Counter()
        self._ids: dict[tuple[object, bytes], int] = {}

    def entry(self, entry: Entry) -> None:
        if isinstance(entry, GenerateRequest):
            self.requests.append(entry)
        elif isinstance(entry, Planned):  # what came since the last plan arrived just before this one
            self._now += [entry.now] * (len(self.requests) - len(self._now))

    def output(self, output: TokenOutput) -> None:
        self._generated[output.id] += len(output.tokens)

    def trace(self) -> Trace:
        requests = self.requests[: len(self._now)]
        blocks = [self._blocks(request.prompt, request.namespace) for request in requests]
        arrivals = np.array(self._now)
        return Trace(
            block=self._block,
            arrivals=arrivals - arrivals.min(),
            input_lengths=np.array([len(request.prompt) for request in requests]),
            output_lengths=np.array([self._generated[request.id] for request in requests]),
            blocks=np.array([block for prompt in blocks for block in prompt], dtype=np.int32),
            starts=np.cumsum([0, *map(len, blocks)]),
            distinct=len(self._ids),
        )

    def _blocks(self, tokens: Ints, namespace: Namespace) -> list[int]:
        """An id for each block of ``tokens``, told by its tokens and the block before it (the first by the namespace)."""
        before: object = namespace
        path = []
        for start in range(0, len(tokens), self._block):
            key = before, tokens[start : start + self._block].tobytes()
            before = self._ids.setdefault(key, len(self._ids))
            path.append(before)
        return path
