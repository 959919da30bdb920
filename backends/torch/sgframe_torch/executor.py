"""The executor of every torch device: applies batches, runs the model, samples. The device is in its DeviceOps.

Knows nothing of scheduling: it executes each ScheduleBatch exactly as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.messages import Loaded, Masks, PromptLogprobs, ScheduleBatch, StepOutput, ints
from sgframe_torch.loading import PROMPT_SLICE, Running, load
from sgframe_torch.logprobs import prompt_logprobs
from sgframe_torch.ops import DeviceOps
from sgframe_torch.rows import PromptSpan, Step
from sgframe_torch.sampler import Sampled, Sampler
from sgframe_torch.trees import branch, scores


@dataclass(frozen=True, slots=True)
class _Computed:
    """A step whose forward is done: ``hidden`` [T, hidden] and the ``logits`` [n, vocab] of its sampled rows."""

    step: Step
    hidden: Tensor
    logits: Tensor


class TorchExecutor(Executor):
    """See Executor."""

    _running: Running
    _sampler: Sampler
    _computed: _Computed

    def __init__(self, ops: DeviceOps) -> None:
        self._ops = ops

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        with torch.inference_mode():
            self._running = load(spec, self._ops, progress)
        self._sampler = Sampler(self._running.announcement.vocab_size)
        return self._running.announcement

    @torch.inference_mode()
    def forward(self, batch: ScheduleBatch) -> None:
        """See Executor.forward. If the model raises, the batch's diff stands, but none of its tokens count as computed."""
        model, rows = self._running.model, self._running.rows
        step = rows.apply(batch)
        hidden = logits = torch.empty(0)
        if batch.rows:
            inputs = branch(step.inputs, step.tree_parts) if step.tree_parts else step.inputs
            self._ops.begin(inputs)
            hidden = model.hidden(inputs, self._running.kv)
            logits = model.logits(hidden[step.sampled_at])
        rows.advance(batch)
        self._computed = _Computed(step, hidden, logits)

    @torch.inference_mode()
    def sample(self, masks: Masks | None) -> StepOutput:
        step, rows = self._computed.step, self._running.rows
        if step.batch.masked and masks is None:
            raise ValueError(f"step {step.batch.step} needs its grammar masks to be sampled")
        words = self._mask_words(masks, step.sampled) if masks is not None and masks.rows else None
        states = [rows[row] for row in step.sampled]
        sampled = self._sampler.sample(self._computed.logits, states, words) if states else Sampled([], [])
        for state, token in zip(states, sampled.tokens, strict=True):
            state.tokens.append(max(token, 0))  # the next step may be planned on it already; what it gives is dropped
        return StepOutput(
            step=step.batch.step,
            rows=ints(step.sampled),
            tokens=ints(sampled.tokens),
            logprobs=sampled.logprobs,
            prompt_logprobs=[self._prompt_logprobs(span) for span in step.prompt_spans],
            scores=scores(self._running.model, self._computed.hidden, step.tree_parts) if step.tree_parts else [],
        )

    def close(self) -> None:
        self.__dict__.pop("_running", None)
        self.__dict__.pop("_computed", None)

    def _prompt_logprobs(self, span: PromptSpan) -> PromptLogprobs:
        row = self._running.rows[span.row]
        entries = []
        for offset in range(0, span.count, PROMPT_SLICE):
            count = min(PROMPT_SLICE, span.count - offset)
            flat, start = span.flat + offset, span.start + offset
            logits = self._running.model.logits(self._computed.hidden[flat : flat + count])
            targets = torch.tensor(row.tokens[start : start + count], device=self._ops.device)
            entries += prompt_logprobs(logits, targets, row.sampling.prompt_logprobs)
        return PromptLogprobs(span.row, span.start, entries)

    def _mask_words(self, masks: Masks, sampled: list[int]) -> Tensor:
        """Packed bits [sampled rows, words of the vocabulary]: all ones for a row that ``masks`` leaves out."""
        given = np.frombuffer(masks.words, dtype=np.int32).reshape(len(masks.rows), -1)
        words = np.full((len(sampled), -(-self._running.announcement.vocab_size // 32)), -1, dtype=np.int32)
        for row, mask in zip(masks.rows, given, strict=True):
            words[sampled.index(row)] = 0
            words[sampled.index(row), : len(mask)] = mask
        return torch.from_numpy(words).to(self._ops.device)
