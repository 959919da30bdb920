"""A scheduler with all its parts and an executor in one process, short of memory: what a service does, without a service."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from scripted_grammar import guides, use

from sgframe.assembly.assemble import configure
from sgframe.assembly.providers import Seam
from sgframe.interfaces.backend import Executor, ExecutorSpec, Pending
from sgframe.interfaces.source import Checkpoint
from sgframe.messages import GenerateRequest, Logprobs, Masks, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe.scheduler.limits import Limits
from sgframe.scheduler.scheduler import Scheduler
from sgframe.scheduling import SchedulerSpec, build

SLOTS, ROWS, STEP_TOKENS = 64, 4, 12
"""Four rows of the workload want more slots than there are, and its prompts more tokens than a step has."""


@dataclass
class Served:
    """Outputs and the logprobs of each token, by request; and how often what was counted happened."""

    outputs: dict[int, list[int]]
    logprobs: dict[int, list[float]]
    counts: Counter[str]


def spec(checkpoint: Checkpoint) -> ExecutorSpec:
    return ExecutorSpec(checkpoint, "float32", max_rows=ROWS, max_step_tokens=STEP_TOKENS, kv_slots=SLOTS)


def workload(vocab_size: int) -> list[GenerateRequest]:
    """Prompts that share a prefix, some longer than a step, half of them bound to a script that forces tokens."""
    shared = [(7 * i) % vocab_size for i in range(20)]
    script: list[Sequence[int]] = [
        range(vocab_size),
        [5],
        [6],
        [7],
        range(0, vocab_size, 3),
        [9],
        range(vocab_size),
    ] * 3
    return [
        GenerateRequest(
            id=id,
            tokens=ints([*shared[: 20 - 3 * (id % 3)], *((id * 31 + i * i) % vocab_size for i in range(6 + id))]),
            max_tokens=16,
            stop_ids=ints(),
            sampling=TokenSampling(
                seed=id, temperature=0.0 if id % 3 else 0.8, logprobs=0, prompt_logprobs=0 if id == 2 else -1
            ),
            grammar=use(script) if id % 2 else None,
        )
        for id in range(8)
    ]


def serve(executor: Executor, vocab_size: int, *, overlap: bool = True) -> Served:
    """Run the workload on a loaded ``executor``, as scheduler and worker would."""
    choices = configure({"cache": "radix", "policy": "lpm"}).choose()
    limits = Limits(slots=SLOTS, max_running=ROWS, max_step_tokens=STEP_TOKENS)
    parts = SchedulerSpec(limits, choices[Seam.CACHE], choices[Seam.POLICY], "ratio")
    grammars = guides(vocab_size, jumps=True)
    scheduler = build(parts, lambda *each: Scheduler(*each[:-2], grammars))
    return _Service(scheduler, executor, overlap).run(workload(vocab_size))


class _Service:
    def __init__(self, scheduler: Scheduler, executor: Executor, overlap: bool) -> None:
        self._scheduler, self._executor, self._overlap = scheduler, executor, overlap
        self._served = Served({}, {}, Counter())
        self._sent: deque[ScheduleBatch] = deque()
        self._masks: dict[int, Masks] = {}

    def run(self, requests: Sequence[GenerateRequest]) -> Served:
        for request in requests:
            self._served.outputs[request.id], self._served.logprobs[request.id] = [], []
            self._scheduler.add(request)
        now = 0.0
        while not (self._scheduler.idle and not self._sent):
            now += 1.0
            batch = self._scheduler.plan(now)
            if batch is not None:
                self._count(batch)
                self._sent.append(batch)
            self._take_masks()
            if len(self._sent) > (self._overlap and batch is not None):
                self._execute(self._sent.popleft())
                self._take_masks()
            self._take_outputs()
            self._scheduler.check()
        return self._served

    def _count(self, batch: ScheduleBatch) -> None:
        counts = self._served.counts
        counts["cached"] += sum(len(new.slots) for new in batch.admitted)
        counts["resumed"] += sum(len(new.tokens) > new.prompt_len for new in batch.admitted)
        counts["forced"] += sum(len(addition.tokens) for addition in batch.appended)
        counts["chunks"] += sum(
            count > 1 and not samples for count, samples in zip(batch.counts, batch.samples, strict=True)
        )

    def _execute(self, batch: ScheduleBatch) -> None:
        self._executor.forward(batch)
        pending: Pending = self._executor.sample(self._masks.pop(batch.step, None))
        self._scheduler.apply(pending.result())

    def _take_masks(self) -> None:
        if (masks := self._scheduler.masks()) is not None:
            self._masks[masks.step] = masks

    def _take_outputs(self) -> None:
        for output in self._scheduler.outbox:
            self._served.outputs[output.id].extend(output.tokens)
            self._served.logprobs[output.id].extend(
                entry.logprob for entry in output.logprobs or [] if isinstance(entry, Logprobs)
            )
        self._scheduler.outbox.clear()
