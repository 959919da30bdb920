"""The executor: loads the model, and computes each batch exactly as it stands. Knows nothing of scheduling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sgframe.errors import ModelError
from sgframe.interfaces.backend import Executor, ExecutorSpec, Ready
from sgframe.messages import (
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
from sgframe_numpy.backend import available_memory
from sgframe_numpy.checkpoint import Floats, LlamaConfig, read_config, read_weights, stored_tensors
from sgframe_numpy.model import QUERY_BLOCK, LayerKV, Llama
from sgframe_numpy.rows import RowTable, Span
from sgframe_numpy.sampling import INVALID, choose, log_softmax, logprobs_of

LOGITS_SLICE = 64
"""Most tokens whose logits exist at once."""
MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Step:
    """A batch whose forward is done: the last ``hidden`` states [T, hidden] of what it computed."""

    batch: ScheduleBatch
    spans: list[Span]
    hidden: Floats


class NumpyExecutor(Executor):
    """See Executor. Everything is computed when a call returns."""

    _vocab_size: int
    _model: Llama
    _kv: list[LayerKV]
    _rows: RowTable
    _step: _Step

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        if spec.dtype not in ("auto", "float32"):
            raise ModelError(f"the numpy backend has no dtype {spec.dtype!r}; choose auto or float32")
        folder, context = Path(spec.checkpoint.folder), _context_length(spec)
        config, stored = read_config(folder), stored_tensors(folder)
        weights = 4 * sum(tensor.size for tensor in stored.values())
        workspace = _workspace_bytes(spec, config, context)
        slots = _choose_slots(spec, context, config.slot_bytes, available_memory() - weights - workspace)
        self._vocab_size = config.vocab_size
        self._model = Llama(config, read_weights(stored, progress))
        self._kv, self._rows = self._model.new_kv(slots), RowTable()
        ledger = [
            LedgerLine("weights", weights, "computed", f"{spec.checkpoint.name}, float32"),
            LedgerLine("KV slots", slots * config.slot_bytes, "computed", f"{slots} slots × {config.slot_bytes} bytes"),
            LedgerLine("workspace", workspace, "computed", "activations, attention scores and logits, at most"),
        ]
        return Loaded(config.vocab_size, context, slots, page_size=1, dtype="float32", ledger=ledger)

    @np.errstate(all="ignore")  # a token of -1 tells what is not finite
    def forward(self, batch: ScheduleBatch) -> None:
        """See Executor. If the model raises, the diff stands, but none of the batch's tokens count as computed."""
        spans = self._rows.apply(batch)
        hidden = self._model.hidden(spans, self._kv) if spans else np.empty((0, 0), np.float32)
        for span in spans:
            span.row.slots = span.slots
        self._step = _Step(batch, spans, hidden)

    @np.errstate(all="ignore")
    def sample(self, masks: Masks | None) -> Ready:
        batch, spans = self._step.batch, self._step.spans
        sampled = [span for span, wanted in zip(spans, batch.samples, strict=True) if wanted]
        allowed = _unpack(masks, self._vocab_size) if masks else {}
        rows, tokens, logprobs = ints(), ints(), list[Logprobs | None]()
        after = self._logits([flat for span in sampled for flat in span.last(1 + len(span.guesses))])
        for span in sampled:
            for token, logprob in _go_on(span, after, allowed.get(span.row.number)):
                rows.append(span.row.number)
                tokens.append(token)
                logprobs.append(logprob)
        return Ready(
            StepOutput(
                step=batch.step,
                rows=rows,
                tokens=tokens,
                logprobs=logprobs if any(span.row.sampling.logprobs >= 0 for span in sampled) else [],
                prompt_logprobs=[found for span in spans for found in self._prompt_logprobs(span)],
                scores=[found for span in spans if span.row.tree for found in self._scores(span, span.row.tree)],
            )
        )

    def close(self) -> None:
        vars(self).clear()

    def _logits(self, flat: Sequence[int]) -> Iterator[Floats]:
        """The logits [vocab] of the step's tokens number ``flat``, one after the other."""
        for begin in range(0, len(flat), LOGITS_SLICE):
            yield from self._model.logits(self._step.hidden[list(flat[begin : begin + LOGITS_SLICE])])

    def _prompt_logprobs(self, span: Span) -> Iterator[PromptLogprobs]:
        """A token gives the logprobs of the next one, as far as that belongs to the prompt and is wanted."""
        row, top = span.row, span.row.sampling.prompt_logprobs
        start, stop = max(span.start + 1, row.logprobs_from), min(span.stop + 1, row.prompt_len)
        if top >= 0 and start < stop:
            logits = self._logits(range(span.at(start - 1), span.at(stop - 1)))
            entries = [logprobs_of(each, row.tokens[index], top) for index, each in enumerate(logits, start)]
            yield PromptLogprobs(row.number, start, entries)

    def _scores(self, span: Span, tree: Tree) -> Iterator[TreeScores]:
        """What ``tree`` asks for right after the tokens of ``span``."""
        asked = defaultdict(list)
        for number, place in enumerate(tree.places):
            if span.start <= span.row.prompt_len + place < span.stop:
                asked[place].append(number)
        numbers, scores = ints(), list[float]()
        flat = [span.at(span.row.prompt_len + place) for place in asked]
        for group, logits in zip(asked.values(), self._logits(flat), strict=True):
            numbers.extend(group)
            scores += log_softmax(logits)[[tree.tokens[number] for number in group]].tolist()
        if numbers:
            yield TreeScores(span.row.number, numbers, scores)


def _go_on(
    span: Span, after: Iterator[Floats], allowed: npt.NDArray[np.bool_] | None
) -> Iterator[tuple[int, Logprobs | None]]:
    """What the row of ``span`` goes on with, and the logprobs it asked for; ``after`` gives the logits of its last tokens.

    That is one token, and those before it that were guessed right. The row learns them.
    """
    row, top, right = span.row, span.row.sampling.logprobs, True
    for guess, logits in zip([*span.guesses, None], after, strict=False):
        if right:
            token = choose(logits, row, allowed)
            yield token, logprobs_of(logits, token, top) if top >= 0 and token != INVALID else None
            row.tokens.append(max(token, 0))  # the next batch may go on with it already; nobody reads what comes of it
            right = token == guess
    row.slots = row.slots[: len(row.tokens) - 1]  # what was computed of wrong guesses never was


def _unpack(masks: Masks, vocab_size: int) -> dict[int, npt.NDArray[np.bool_]]:
    """Which tokens each row of ``masks`` may take; what they do not reach is forbidden."""
    words = np.frombuffer(masks.words, np.uint8).reshape(len(masks.rows), -1 if masks.rows else 0)
    bits = np.unpackbits(words, axis=1, count=vocab_size, bitorder="little")
    return dict(zip(masks.rows, bits.astype(bool), strict=True))


def _context_length(spec: ExecutorSpec) -> int:
    own = spec.checkpoint.context_length
    if spec.context_length > own:
        raise ModelError(
            f"context_length is {spec.context_length}, but {spec.checkpoint.name} was made for at most {own} tokens"
        )
    return spec.context_length or own


def _workspace_bytes(spec: ExecutorSpec, config: LlamaConfig, context: int) -> int:
    """An upper estimate of what a step takes beside weights and KV."""
    activations = spec.max_step_tokens * (8 * config.hidden_size + 4 * config.intermediate_size + context // 4)
    scores = 4 * QUERY_BLOCK * config.num_attention_heads * context
    return 4 * (activations + scores + 4 * LOGITS_SLICE * config.vocab_size)


def _choose_slots(spec: ExecutorSpec, context: int, slot_bytes: int, available: int) -> int:
    """As ``spec`` says, else what half of the ``available`` bytes hold, but no more than all rows can fill."""
    if spec.kv_bytes and not spec.kv_slots:
        slots = spec.kv_bytes // slot_bytes
    else:
        slots = spec.kv_slots or min(spec.max_rows * context, max(available, 0) // 2 // slot_bytes)
    if slots < 1 or slots * slot_bytes > available:
        raise ModelError(
            f"the KV does not fit: {slots} slots × {slot_bytes} bytes are asked for, and {available // MIB} MiB are left "
            "beside weights and workspace; set kv_memory or kv_slots to what fits, or lower max_running or context_length"
        )
    return slots
