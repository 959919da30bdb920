"""The simulated executor: runs batches exactly as planned, on a model that is arithmetic. Knows no scheduler.

Its model puts its whole weight on one token, so that no sampling parameter changes what comes out; log-probabilities are
fixed figures of the right shape and count, but for those of trees, see ``model.logprob``. A grammar mask is obeyed: the
next allowed id upwards is taken instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

from sgframe.errors import ModelError, SgframeError
from sgframe.interfaces.backend import LEAST_SAMPLES, Executor, ExecutorSpec
from sgframe.messages import (
    Ints,
    LedgerLine,
    Loaded,
    Logprobs,
    Masks,
    PromptLogprobs,
    ScheduleBatch,
    StepOutput,
    Tree,
    TreeScores,
    ints,
)
from sgframe_simulated import SimulatedSettings
from sgframe_simulated.memory import SlotMemory
from sgframe_simulated.model import logprob, next_token
from sgframe_simulated.rows import PlanFault, Row, RowTable

SLOT_BYTES = 32
"""What a simulated slot is announced to take."""

INVALID = -1
_NONE = ints()


class SimulatedFailure(SgframeError):
    """The failure that ``fail_at_step`` asked for."""


@dataclass(frozen=True, slots=True)
class _Timed:
    """See Pending; done at a moment of ``time.perf_counter``."""

    output: StepOutput
    ready_at: float

    def done(self) -> bool:
        return time.perf_counter() >= self.ready_at

    def result(self) -> StepOutput:
        time.sleep(max(0.0, self.ready_at - time.perf_counter()))
        return self.output


class SimulatedExecutor(Executor):
    """Computes in ``forward``; what it sampled is told when the simulated device would be done."""

    def __init__(self, settings: SimulatedSettings) -> None:
        self._settings = settings
        self._memory = SlotMemory(0)
        self._table = RowTable(0, self._memory)
        self._vocab_size = 0
        self._batch: ScheduleBatch | None = None
        self._ready_at = 0.0

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        settings = self._settings
        if spec.dtype not in ("auto", "float32"):
            raise ModelError(f"the simulated backend has no dtype {spec.dtype}: ask for auto or float32")
        slots = spec.kv_slots or spec.kv_bytes // SLOT_BYTES or settings.slots
        context_length = spec.context_length or settings.context_length or spec.checkpoint.context_length
        self._vocab_size = settings.vocab_size or spec.checkpoint.vocab_size
        if not self._vocab_size or not context_length:
            raise ModelError(
                f"the checkpoint {spec.checkpoint.name!r} does not say its vocabulary or context length: set "
                "vocab_size and context_length of the simulated backend"
            )
        self._memory = SlotMemory(slots)
        self._table = RowTable(spec.max_rows, self._memory)
        return Loaded(
            vocab_size=self._vocab_size,
            context_length=min(context_length, slots),
            slots=slots,
            page_size=settings.page_size,
            dtype="float32",
            ledger=[LedgerLine("KV slots", slots * SLOT_BYTES, "computed", f"{slots} slots of {SLOT_BYTES} bytes")],
        )

    def forward(self, batch: ScheduleBatch) -> None:
        """Raises SlotFault or PlanFault, naming row, position and slot, when the plan is wrong."""
        started = time.perf_counter()
        self._table.apply(batch)
        rows = [self._table[number] for number in batch.rows]
        try:
            self._compute(batch, rows)
        finally:
            self._table.begin_reading()
        for row in rows:  # all KV of a step is written before any is read, as on a device
            row.verify(self._memory, batch.step)
        self._batch = batch
        self._ready_at = max(started, self._ready_at) + self._cost(batch)  # a device does one step after the other

    def _compute(self, batch: ScheduleBatch, rows: Sequence[Row]) -> None:
        if batch.step == self._settings.fail_at_step:
            raise SimulatedFailure(f"step {batch.step} fails, as simulated.fail_at_step asks")
        for row in compress(rows, batch.samples):
            if row.tree is not None:
                raise PlanFault(f"step {batch.step}: row {row.row} is to be sampled, but it is a tree")
        self._check_guesses(batch)
        guesses = _guesses(batch)
        start = 0
        for row, count in zip(rows, batch.counts, strict=True):
            slots = batch.slots[start : start + count]
            row.compute(slots, self._memory, batch.step, guesses.get(row.row, _NONE))
            start += count

    def _check_guesses(self, batch: ScheduleBatch) -> None:
        for guess in batch.guesses:
            place, row = batch.rows.index(guess.row), self._table[guess.row]
            found = batch.counts[place], batch.samples[place], row.computed + 1
            due = 1 + len(guess.tokens)
            if found != (due, due, len(row.tokens)):
                raise PlanFault(
                    f"step {batch.step}: row {row.row} is to compute {found[0]} tokens from {row.computed} on and to sample "
                    f"{found[1]}; with {len(guess.tokens)} guesses it is {due} of each from {len(row.tokens) - 1} on"
                )
        most = max(self._table.size, LEAST_SAMPLES)
        if sum(batch.samples) > most:
            raise PlanFault(f"step {batch.step} samples {sum(batch.samples)} tokens, and {most} is the most")

    def _cost(self, batch: ScheduleBatch) -> float:
        settings = self._settings
        decoding = batch.counts.count(1)
        return (
            settings.step_seconds
            + settings.decode_seconds_per_row * decoding
            + settings.prefill_seconds_per_token * (len(batch.slots) - decoding)
        )

    def sample(self, masks: Masks | None) -> _Timed:
        batch, self._batch = self._batch, None
        assert batch is not None, "sample follows a forward"
        rows = [self._table[number] for number in batch.rows]
        allowed = _unpack(masks) if masks else {}
        prompt_logprobs, scores = self._prompt_logprobs(rows, batch.counts), self._scores(rows, batch.counts)
        guesses = _guesses(batch)
        sampled = [
            (row, token)
            for row in compress(rows, batch.samples)
            for token in self._go_on(row, allowed.get(row.row), guesses.get(row.row, _NONE))
        ]
        asked = any(row.sampling.logprobs >= 0 for row, _ in sampled)
        output = StepOutput(
            step=batch.step,
            rows=ints(row.row for row, _ in sampled),
            tokens=ints(token for _, token in sampled),
            logprobs=[self._logprobs(row, token) for row, token in sampled] if asked else [],
            prompt_logprobs=prompt_logprobs,
            scores=scores,
        )
        return _Timed(output, self._ready_at)

    def _go_on(self, row: Row, allowed: int | None, guesses: Ints) -> list[int]:
        """The tokens that ``row`` goes on with: one, and those before it that were among ``guesses``."""
        tokens = [self._sample(row, allowed)]
        for guess in guesses:
            if tokens[-1] != guess:
                break
            tokens.append(self._sample(row, None))
        if guesses:
            row.take_back(self._memory)
        return tokens

    def _sample(self, row: Row, allowed: int | None) -> int:
        """The next token of ``row``, which learns it; ``allowed`` has bit t set for every token t that may come."""
        prefix_hash = row.hashes[len(row.tokens) - 1]
        token = next_token(self._settings.mode, row.tokens, row.prompt_len, prefix_hash, self._vocab_size)
        if allowed is not None:
            token = _next_allowed(token, allowed)
        if self._is_spoilt(row):
            token = INVALID
        row.tokens.append(token)
        return token

    def _is_spoilt(self, row: Row) -> bool:
        return self._settings.nan_token >= 0 and self._settings.nan_token in row.tokens[: row.prompt_len]

    def _logprobs(self, row: Row, token: int) -> Logprobs | None:
        wanted = row.sampling.logprobs
        return self._entry(token, wanted) if wanted >= 0 and token != INVALID else None

    def _prompt_logprobs(self, rows: Sequence[Row], counts: Sequence[int]) -> list[PromptLogprobs]:
        """Position p gives the logprobs of the token at p + 1, as far as that belongs to the prompt and is wanted."""
        found = []
        for row, count in zip(rows, counts, strict=True):
            if row.sampling.prompt_logprobs >= 0:
                start = max(row.computed - count + 1, row.logprobs_from)
                tokens = row.tokens[start : min(row.computed + 1, row.prompt_len)]
                if tokens:
                    entries = [self._entry(token, row.sampling.prompt_logprobs) for token in tokens]
                    found.append(PromptLogprobs(row.row, start, entries))
        return found

    def _scores(self, rows: Sequence[Row], counts: Sequence[int]) -> list[TreeScores]:
        """Of each tree, what is asked for right after the tokens that were just computed."""
        found = []
        for row, count in zip(rows, counts, strict=True):
            if row.tree is not None:
                end = row.computed - row.prompt_len  # in places, as in Tree
                asked = [index for index, place in enumerate(row.tree.places) if end - count <= place < end]
                if asked:
                    found.append(TreeScores(row.row, ints(asked), [self._score(row, row.tree, each) for each in asked]))
        return found

    def _score(self, row: Row, tree: Tree, asked: int) -> float:
        if self._is_spoilt(row):
            return math.nan
        return logprob(row.hashes[row.prompt_len + tree.places[asked]], tree.tokens[asked])

    def _entry(self, token: int, top: int) -> Logprobs:
        """-1 for ``token``, and -1, -2 … for it and the ids that follow."""
        ids = ints((token + i) % self._vocab_size for i in range(top))
        return Logprobs(token, -1.0, ids, [-1.0 - i for i in range(top)])

    def poison(self, slots: Sequence[int]) -> None:
        """Spoil ``slots`` that were just freed: a row that still reads one fails when it next computes."""
        self._memory.poison(slots)
        self._table.distrust()

    def close(self) -> None:
        self._memory = SlotMemory(0)
        self._table = RowTable(0, self._memory)


def _guesses(batch: ScheduleBatch) -> dict[int, Ints]:
    """By row."""
    return {guess.row: guess.tokens for guess in batch.guesses}


def _unpack(masks: Masks) -> dict[int, int]:
    """Each row's mask as one number with bit t for token t."""
    size = len(masks.words) // max(len(masks.rows), 1)
    return {row: int.from_bytes(masks.words[i * size : (i + 1) * size], "little") for i, row in enumerate(masks.rows)}


def _next_allowed(token: int, allowed: int) -> int:
    """The lowest allowed id from ``token`` upwards, else from 0; INVALID when none is."""
    above = allowed >> token << token
    candidates = above or allowed
    return (candidates & -candidates).bit_length() - 1  # of 0: bit_length 0, which makes INVALID
