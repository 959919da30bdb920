"""The executor of every torch device: applies batches, runs the model, samples. The device is in its DeviceOps, the other
ranks in its Group.

Knows nothing of scheduling: it executes each ScheduleBatch exactly as it stands. All ranks execute the same; only rank 0
samples, and the others go on with what it drew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from msgspec.structs import replace
from torch import Tensor

from sgframe.errors import RankLost
from sgframe.interfaces.backend import Executor, ExecutorSpec, Pending, Ranks, Ready
from sgframe.messages import Decoder, Loaded, Masks, PromptLogprobs, ScheduleBatch, StepOutput, encode
from sgframe_torch.graphs import DecodeGraphs
from sgframe_torch.loading import Running, load
from sgframe_torch.logprobs import prompt_logprobs
from sgframe_torch.needs import PROMPT_SLICE
from sgframe_torch.ops import DeviceOps, Download
from sgframe_torch.parallel.group import ALONE, Group
from sgframe_torch.parallel.member import Member
from sgframe_torch.rows import PromptSpan, Step, StepInputs
from sgframe_torch.sampler import INVALID, RowState, Sampler, asks_logprobs
from sgframe_torch.samples import Samples
from sgframe_torch.trees import branch, scores


@dataclass(frozen=True, slots=True)
class _Computed:
    """A step whose forward has been started: ``hidden`` [T, hidden] and the ``logits`` [n, vocab] of its sampled rows."""

    step: Step
    hidden: Tensor
    logits: Tensor


Waiting = Callable[[int], AbstractContextManager[None]]
"""What is held while this rank waits in the step of that number."""


class _Launched:
    """See Pending. The rows that were sampled learn their tokens when these come."""

    def __init__(self, number: int, samples: Samples, download: Download, waiting: Waiting) -> None:
        self._number, self._samples, self._download, self._waiting = number, samples, download, waiting
        self._output: StepOutput | None = None

    def done(self) -> bool:
        return self._output is not None or self._download.done()

    def result(self) -> StepOutput:
        if self._output is None:
            with self._waiting(self._number):
                tokens = self._download.wait().tolist()
            self._output = self._samples.settle(tokens)
        return self._output


class TorchExecutor(Executor):
    """See Executor."""

    _running: Running
    _sampler: Sampler
    _computed: _Computed
    _graphs: DecodeGraphs | None

    def __init__(self, ops: DeviceOps) -> None:
        self._ops = ops
        self._member: Member | None = None

    # ------------------------------------------------------------------------------------------ the seam

    def join(self, ranks: Ranks, give_up: Callable[[str], None]) -> None:
        self._ops.place(ranks)
        self._member = Member(ranks, self._ops, give_up)

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        if self._member is None:  # else it has its place already
            self._ops.place(Ranks())
        with torch.inference_mode(), self._together("loading"):
            self._running = load(spec, self._ops, self._group, progress)
            self._graphs = self._record(self._running) if self._ops.graph_rows else None
        self._sampler = Sampler(self._running.announcement.vocab_size, self._ops)
        return self._running.announcement

    def forward(self, batch: ScheduleBatch) -> None:
        """See Executor.forward. If the model raises, the batch's diff stands, but none of its tokens count as computed.

        Several ranks cannot go on from there, since the others wait for this one: then it is fatal.
        """
        if self._member is not None:
            with self._member.talk():
                self._member.group.tell(encode(batch))
        self._execute(batch)

    def sample(self, masks: Masks | None) -> Pending:
        batch = self._computed.step.batch
        if batch.masked and masks is None:
            raise ValueError(f"step {batch.step} needs its grammar masks to be sampled")
        with self._in_step(batch.step):
            pending = self._sample(masks)
        if self._member is not None and not pending.done():
            self._member.expect(batch.step)
        return pending

    def follow(self) -> None:
        assert self._member is not None, "one rank has nobody to follow"
        decode: Decoder[ScheduleBatch] = Decoder(ScheduleBatch)
        pending: Pending | None = None
        with self._member.talk():
            while frame := self._member.group.hear():
                batch = decode(frame)
                self._execute(batch)
                if pending is not None:  # as with rank 0: a step is started before the last one's tokens have come
                    pending.result()
                with self._in_step(batch.step):
                    pending = self._sample(None)

    def fatal(self, error: Exception) -> bool:
        return isinstance(error, RankLost) or (self._member is not None and self._member.failed)

    def close(self) -> None:
        if self._member is not None and "_running" in self.__dict__:
            self._member.dismiss()
        # Recordings go before the group: a library waits for those that hold its collectives before it leaves.
        for held in ("_graphs", "_computed", "_running"):
            self.__dict__.pop(held, None)
        if self._member is not None:
            self._member.close()
        self._member = None

    @property
    def _group(self) -> Group:
        return ALONE if self._member is None else self._member.group

    def _together(self, doing: str) -> AbstractContextManager[None]:
        return nullcontext() if self._member is None else self._member.together(doing)

    def _in_step(self, number: int) -> AbstractContextManager[None]:
        return nullcontext() if self._member is None else self._member.step(number)

    # ------------------------------------------------------------------------------------------- forward

    def _execute(self, batch: ScheduleBatch) -> None:
        with self._in_step(batch.step), self._together(f"in step {batch.step}"):
            self._forward(batch)

    @torch.inference_mode()
    def _forward(self, batch: ScheduleBatch) -> None:
        rows = self._running.rows
        step = rows.apply(batch)
        if self._member is not None:
            self._member.applied(step)
        hidden = logits = torch.empty(0)
        if batch.rows:
            inputs = branch(step.inputs, step.tree_parts, self._ops) if step.tree_parts else step.inputs
            hidden, logits = self._replay(step) or self._compute(inputs, step.sampled_at)
        rows.advance(batch)
        self._computed = _Computed(step, hidden, logits)

    def _compute(self, inputs: StepInputs, sampled_at: Tensor) -> tuple[Tensor, Tensor]:
        self._ops.begin(inputs)
        hidden = self._running.hidden(inputs)
        return hidden, self._running.head(hidden[sampled_at])

    def _replay(self, step: Step) -> tuple[Tensor, Tensor] | None:
        """The same from a recording; None where there is none for such a step."""
        found = self._graphs.run(step.inputs) if self._graphs and not step.tree_parts else None
        if found is None or len(step.sampled) == len(step.batch.rows):
            return found
        hidden, logits = found
        return hidden, logits[step.sampled_at]

    def _record(self, running: Running) -> DecodeGraphs:
        rows, spare_slot = min(self._ops.graph_rows, running.rows.size), running.announcement.slots
        return DecodeGraphs(running.model, running.kv, self._ops, running.rows.page_table, rows, spare_slot)

    # -------------------------------------------------------------------------------------------- sample

    @torch.inference_mode()
    def _sample(self, masks: Masks | None) -> Pending:
        """What is asked for beside tokens is computed at once; tokens alone may still be on their way."""
        step, rows = self._computed.step, self._running.rows
        samples = Samples(step, rows)
        try:
            tokens = self._choose(samples.states, masks)
        except Exception:
            samples.fail()
            raise
        samples.await_tokens()
        launched = _Launched(step.batch.step, samples, self._ops.download(tokens), self._in_step)
        if asks_logprobs(samples.states) or step.prompt_spans or step.tree_parts:
            with self._together(f"in step {step.batch.step}"):
                return Ready(self._with_logprobs(launched.result(), samples))
        if launched.done():
            return Ready(launched.result())
        if samples.states:
            rows.relay(step, tokens)
        return launched

    def _choose(self, states: Sequence[RowState], masks: Masks | None) -> Tensor:
        """int64 [states], on every rank what rank 0 draws; INVALID for all if it fails at that."""
        tokens = torch.full((len(states),), INVALID, device=self._ops.device)
        try:
            if states and self._group.rank == 0:
                words = self._mask_words(masks, self._computed.step.sampled) if masks and masks.rows else None
                tokens = self._sampler.choose(self._computed.logits, states, words)
        finally:
            tokens = self._group.broadcast(tokens)
        return tokens

    def _with_logprobs(self, output: StepOutput, samples: Samples) -> StepOutput:
        computed, step, kept = self._computed, self._computed.step, samples.kept
        logits = computed.logits[kept] if len(kept) < len(samples.states) else computed.logits
        return replace(
            output,
            logprobs=self._sampler.logprobs(logits, output.tokens, [samples.states[place] for place in kept]),
            prompt_logprobs=[self._prompt_logprobs(span) for span in step.prompt_spans],
            scores=scores(self._running.model, computed.hidden, step.tree_parts) if step.tree_parts else [],
        )

    def _prompt_logprobs(self, span: PromptSpan) -> PromptLogprobs:
        row = self._running.rows[span.row]
        entries = []
        for offset in range(0, span.count, PROMPT_SLICE):
            count = min(PROMPT_SLICE, span.count - offset)
            flat, start = span.flat + offset, span.start + offset
            logits = self._running.model.logits(self._computed.hidden[flat : flat + count])
            targets = torch.tensor(row.tokens[start : start + count], device=self._ops.device)
            entries += prompt_logprobs(logits, targets, row.sampling.prompt_logprobs, self._ops.rank)
        return PromptLogprobs(span.row, span.start, entries)

    def _mask_words(self, masks: Masks, sampled: list[int]) -> Tensor:
        """Packed bits [sampled rows, words of the vocabulary]: all ones for a row that ``masks`` leaves out."""
        given = np.frombuffer(masks.words, dtype=np.int32).reshape(len(masks.rows), -1)
        words = np.full((len(sampled), -(-self._running.announcement.vocab_size // 32)), -1, dtype=np.int32)
        for row, mask in zip(masks.rows, given, strict=True):
            words[sampled.index(row)] = 0
            words[sampled.index(row), : len(mask)] = mask
        return self._ops.upload(words)
