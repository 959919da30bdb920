"""The row table: what each running request is, and what a step is to compute of it. Knows no model.

A batch is a diff. What a row is was said when it was admitted; from then on a batch says how many tokens come next and
which slots they get, and the table knows the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgframe.messages import Ints, NewRow, ScheduleBatch, Tree, ints
from sgframe.sampling import TokenSampling

Slots = npt.NDArray[np.int32]


@dataclass(slots=True)
class Row:
    """One request: ``tokens`` are all known ones, and ``slots`` hold the KV of those that are computed."""

    number: int
    tokens: Ints
    prompt_len: int
    slots: Slots
    sampling: TokenSampling
    logprobs_from: int
    tree: Tree | None


@dataclass(frozen=True, slots=True)
class Span:
    """The tokens ``start … stop`` of ``row``, which a step computes: the step's own tokens from number ``flat`` on.

    Attributes:
        guesses: the last of them, which are not known but may follow what is.
        slots: [stop] where the KV of the row's tokens lies; that of the span is still to be written.
        visible: [stop - start, stop] which tokens of the row each token of the span attends to.
    """

    row: Row
    flat: int
    start: int
    stop: int
    guesses: Ints
    slots: Slots
    visible: npt.NDArray[np.bool_]

    @property
    def tokens(self) -> Ints:
        return self.row.tokens[self.start : self.stop] + self.guesses

    @property
    def positions(self) -> Slots:
        """As many as a token sees before itself; in a tree the other paths do not count."""
        seen: Slots = self.visible.sum(axis=1, dtype=np.int32)
        return seen - 1

    def last(self, count: int) -> range:
        """The numbers in the step of the last ``count`` tokens."""
        return range(self.at(self.stop - count), self.at(self.stop))

    def at(self, index: int) -> int:
        """The number in the step of the row's token ``index``."""
        return self.flat + index - self.start


class RowTable:
    """All rows, by number."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}

    def apply(self, batch: ScheduleBatch) -> list[Span]:
        """Carry out the diff, in the order that ScheduleBatch names, and tell what the step computes."""
        for number in batch.released:
            del self._rows[number]
        for new in batch.admitted:
            self._rows[new.row] = _row(new)
        for rewrite in batch.rewrites:
            self._rows[rewrite.row].slots[rewrite.start : rewrite.start + len(rewrite.slots)] = rewrite.slots
        for addition in batch.appended:
            self._rows[addition.row].tokens.extend(addition.tokens)
        guesses = {guess.row: guess.tokens for guess in batch.guesses}
        spans, flat = [], 0
        for number, count in zip(batch.rows, batch.counts, strict=True):
            row, slots = self._rows[number], batch.slots[flat : flat + count]
            spans.append(_span(row, flat, slots, guesses.get(number, ints())))
            flat += count
        return spans


def _row(new: NewRow) -> Row:
    slots = np.array(new.slots, np.int32)
    return Row(new.row, new.tokens[:], new.prompt_len, slots, new.sampling, new.logprobs_from, new.tree)


def _span(row: Row, flat: int, taken: Ints, guesses: Ints) -> Span:
    start, stop = len(row.slots), len(row.slots) + len(taken)
    slots = np.concatenate((row.slots, np.array(taken, np.int32)))
    visible = np.tri(stop - start, stop, start, dtype=bool) if row.tree is None else _paths(row, row.tree, stop)[start:]
    return Span(row, flat, start, stop, guesses, slots, visible)


def _paths(row: Row, tree: Tree, stop: int) -> npt.NDArray[np.bool_]:
    """[stop, stop]: the prompt is a line; each node sees what its parent sees, and itself."""
    visible = np.tri(stop, dtype=bool)
    for index in range(row.prompt_len, stop):
        visible[index] = visible[row.prompt_len + tree.parents[index - row.prompt_len]]
        visible[index, index] = True
    return visible
