"""The row table: what each running request is, and the flat inputs of a step built from a ScheduleBatch diff.

Owns the known tokens of every row and the page table that says in which KV slot each of them lies. Knows no model: a
step's inputs are index tensors, ragged rows laid end to end without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sgframe.messages import Ints, NewRow, ScheduleBatch, Tree
from sgframe.sampling import TokenSampling

if TYPE_CHECKING:
    from sgframe_torch.ops import DeviceOps

Ints32 = npt.NDArray[np.int32]


@dataclass(slots=True)
class Row:
    """One request: ``tokens`` are all known ones, of which the KV of the first ``computed`` is in slots.

    The token at ``awaited`` was sampled and has not come to the host yet; -1: there is none such.
    """

    tokens: Ints
    prompt_len: int
    sampling: TokenSampling
    computed: int
    logprobs_from: int
    tree: Tree | None
    awaited: int = -1

    def await_token(self) -> None:
        """Go on with a token that the device knows."""
        self.awaited = len(self.tokens)
        self.tokens.append(0)

    def settle(self, token: int) -> None:
        """The awaited token has come. What is not a token (see Executor.sample) counts as 0: nobody reads what it gives."""
        self.tokens[self.awaited] = max(token, 0)
        self.awaited = -1

    def verify(self, guesses: Ints, tokens: Sequence[int]) -> int:
        """Go on with those of ``tokens``, sampled after the last known one and after each of ``guesses``, before which all
        guesses are right; returns how many. What comes before the last of them is computed, and no more."""
        wrong = (count for count, guess in enumerate(guesses) if guess != tokens[count])
        count = 1 + next(wrong, len(guesses))
        self.tokens.extend([max(token, 0) for token in tokens[:count]])
        self.computed = len(self.tokens) - 1
        return count


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What a model reads in one step of T tokens from R rows, on the device; row i's tokens are
    ``query_starts[i] … query_starts[i + 1]``.

    Attributes:
        tokens: int64 [T] token ids.
        positions: int64 [T] position of each token in its own sequence.
        slots: int64 [T] the KV slot each token's keys and values go to.
        rows: int32 [R] the page table rows.
        query_starts: int32 [R + 1].
        kv_lengths: int32 [R] tokens of each row that are in slots once this step's are written.
        page_table: int32 [max_rows, context] ``page_table[row, position]`` is the slot of that token.
        host_starts: ``query_starts`` on the host, for whoever plans there.
        host_lengths: ``kv_lengths`` on the host.
        paged: whether each line of ``page_table`` runs through whole pages; not so where token trees branch.
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    rows: Tensor
    query_starts: Tensor
    kv_lengths: Tensor
    page_table: Tensor
    host_starts: Ints32
    host_lengths: Ints32
    paged: bool = True


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """Prompt logprobs due in a step: those of ``count`` tokens of ``row`` from position ``start``, predicted by the flat
    tokens ``flat … flat + count``."""

    row: int
    start: int
    flat: int
    count: int


@dataclass(frozen=True, slots=True)
class TreePart:
    """What a step computes of ``row``, the batch's row number ``order``: the ``count`` tokens of its ``tree`` from place
    ``start`` on, which are the flat tokens ``flat … flat + count``.

    Places are as in Tree: nodes from 0 on, the prompt's last token -1, and so down to its first.
    """

    order: int
    row: int
    tree: Tree
    prompt_len: int
    start: int
    flat: int
    count: int


@dataclass(frozen=True, slots=True)
class Step:
    """A ScheduleBatch made ready: ``sampled`` rows get their next token from the flat tokens ``sampled_at``. A row with
    ``guesses`` stands there once for itself and once for each of them.

    The ``inputs`` take every row for one line of tokens; see ``trees.branch`` for those that are trees.
    """

    batch: ScheduleBatch
    inputs: StepInputs
    sampled: list[int]
    sampled_at: Tensor
    sampled_rows: Tensor
    prompt_spans: list[PromptSpan]
    tree_parts: list[TreePart]
    guesses: dict[int, Ints]


class RowTable:
    """Rows 0 … max_rows - 1, each of at most ``context`` tokens."""

    def __init__(self, max_rows: int, context: int, ops: DeviceOps) -> None:
        self._rows: dict[int, Row] = {}
        self._upload, self._upload_all = ops.upload, ops.upload_all
        self._page_table = torch.zeros(max_rows, context, dtype=torch.int32, device=ops.device)
        self._relay = torch.zeros(max_rows, dtype=torch.int64, device=ops.device)

    def __getitem__(self, row: int) -> Row:
        return self._rows[row]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """Most rows."""
        return len(self._page_table)

    @property
    def page_table(self) -> Tensor:
        """See StepInputs; the same tensor in every step."""
        return self._page_table

    def apply(self, batch: ScheduleBatch) -> Step:
        """Carry out the diff and build the step. What is computed moves only by ``advance``."""
        for row in batch.released:
            self._rows.pop(row, None)
        for new in batch.admitted:
            self._admit(new)
        for rewrite in batch.rewrites:
            self._set_slots(rewrite.row, rewrite.start, rewrite.slots)
        for addition in batch.appended:
            self._rows[addition.row].tokens.extend(addition.tokens)
        return self._build(batch)

    def advance(self, batch: ScheduleBatch) -> None:
        """Note that the tokens of ``batch`` are computed."""
        for row, count in zip(batch.rows, batch.counts, strict=True):
            self._rows[row].computed += count

    def relay(self, step: Step, tokens: Tensor) -> None:
        """Keep ``tokens`` [n], sampled in ``step``, on the device for the next step, which may come before they are known
        to the host."""
        self._relay[step.sampled_rows] = tokens.clamp(min=0)

    def _admit(self, new: NewRow) -> None:
        computed = len(new.slots)
        self._rows[new.row] = Row(new.tokens[:], new.prompt_len, new.sampling, computed, new.logprobs_from, new.tree)
        self._set_slots(new.row, 0, new.slots)

    def _set_slots(self, row: int, start: int, slots: Ints) -> None:
        if slots:
            self._page_table[row, start : start + len(slots)] = self._upload(_numpy(slots))

    def _build(self, batch: ScheduleBatch) -> Step:
        rows, counts = _numpy(batch.rows), _numpy(batch.counts)
        known = [self._rows[row] for row in batch.rows]
        computed = np.array([row.computed for row in known], dtype=np.int32)
        starts = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum(counts, out=starts[1:])
        tokens = np.empty(starts[-1], dtype=np.int64)
        guesses = {guess.row: guess.tokens for guess in batch.guesses}
        for number, row, start, count in zip(batch.rows, known, starts.tolist(), batch.counts, strict=False):
            own = row.tokens[row.computed : row.computed + count]
            tokens[start : start + count] = own + guesses[number] if number in guesses else own
        positions = np.arange(len(tokens)) + np.repeat(computed - starts[:-1], counts)
        samples = _numpy(batch.samples)
        sampled = np.repeat(rows, samples)
        lengths = computed + counts
        awaited = [order for order, row in enumerate(known) if row.awaited >= 0]  # each row's first to be computed
        (
            tokens_,
            positions_,
            slots,
            rows_,
            starts_,
            lengths_,
            sampled_at,
            owners,
            sampled_rows,
            awaited_at,
            awaited_rows,
        ) = self._upload_all(
            [
                tokens,
                positions,
                _numpy(batch.slots).astype(np.int64),
                rows,
                starts,
                lengths,
                _last(starts[1:], samples),
                np.repeat(rows, counts),
                sampled,
                starts[awaited],
                rows[awaited],
            ]
        )
        if awaited:  # tokens that only the device knows
            tokens_[awaited_at] = self._relay[awaited_rows]
        self._page_table[owners, positions_] = slots.int()
        inputs = StepInputs(tokens_, positions_, slots, rows_, starts_, lengths_, self._page_table, starts, lengths)
        spans = [
            span
            for row, start, count in zip(batch.rows, starts.tolist(), batch.counts, strict=False)
            if (span := self._prompt_span(row, start, count)) is not None
        ]
        parts = [
            self._tree_part(row.tree, order, batch, int(starts[order]))
            for order, row in enumerate(known)
            if row.tree is not None
        ]
        return Step(batch, inputs, sampled.tolist(), sampled_at, sampled_rows, spans, parts, guesses)

    def _prompt_span(self, number: int, flat: int, count: int) -> PromptSpan | None:
        row = self._rows[number]
        if row.sampling.prompt_logprobs < 0:
            return None
        start = max(row.computed + 1, row.logprobs_from)
        end = min(row.computed + count + 1, row.prompt_len)
        if start >= end:
            return None
        return PromptSpan(number, start, flat + start - 1 - row.computed, end - start)

    def _tree_part(self, tree: Tree, order: int, batch: ScheduleBatch, flat: int) -> TreePart:
        number = batch.rows[order]
        row = self._rows[number]
        return TreePart(order, number, tree, row.prompt_len, row.computed - row.prompt_len, flat, batch.counts[order])


def _last(ends: Ints32, counts: Ints32) -> Ints32:
    """The last ``counts[i]`` numbers before ``ends[i]``, for each i in turn."""
    numbers = np.repeat(ends - counts, counts)
    if counts.max(initial=0) > 1:
        numbers += np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    return numbers


def _numpy(values: Ints) -> np.ndarray:
    return np.frombuffer(values, dtype=np.int32) if values else np.empty(0, dtype=np.int32)
