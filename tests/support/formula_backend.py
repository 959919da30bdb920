"""A sound backend in two screens, for tests to put faults into: each thing it does is a method of its own.

Its model is a formula with logits: what a token attends to is what the slots of its line hold, each a position and a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sgframe.interfaces.backend import Backend, Capabilities, Executor, ExecutorSpec, Pending, Ready
from sgframe.messages import (
    Appended,
    LedgerLine,
    Loaded,
    Logprobs,
    Masks,
    NewRow,
    PromptLogprobs,
    Rewrite,
    ScheduleBatch,
    StepOutput,
    Tree,
    TreeScores,
    ints,
)
from sgframe.sampling import TokenSampling

VOCAB = 128
Logits = npt.NDArray[np.float64]


class FormulaBackend(Backend):
    """Makes executors of the class ``kind``."""

    def __init__(self, kind: type[FormulaExecutor]) -> None:
        self.kind = kind

    def probe(self) -> Capabilities:
        return Capabilities(
            usable=True, device="a formula", memory_bytes=2**20, page_size=1, dtypes=("float32",), verifies=True
        )

    def executor(self) -> FormulaExecutor:
        return self.kind()


@dataclass(eq=False)
class Row:
    """One request; ``slots`` are those of its computed tokens."""

    number: int
    tokens: list[int]
    prompt_len: int
    slots: list[int]
    sampling: TokenSampling
    logprobs_from: int
    tree: Tree | None
    guesses: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Span:
    """What a step computes of a row: the tokens ``start`` … ``stop`` - 1. ``samples`` says at how many of the last it is
    sampled."""

    row: Row
    start: int
    stop: int
    samples: int


class FormulaExecutor(Executor):
    """Everything is computed when a call returns."""

    # ------------------------------------------------------------------------------------------ load and forward

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        slots = spec.kv_slots or spec.kv_bytes // 64
        self.kv = [-1] * slots
        self.rows: dict[int, Row] = {}
        ledger = [LedgerLine("KV", 64 * slots, "computed")]
        return Loaded(VOCAB, spec.context_length, slots, page_size=1, dtype="float32", ledger=ledger)

    def forward(self, batch: ScheduleBatch) -> None:
        self.change_rows(batch)
        self.batch = batch
        self.spans = list(self.plan(batch))
        slots = iter(batch.slots)
        for span in self.spans:
            span.row.slots += [next(slots) for _ in range(span.start, span.stop)]
            self.write(span)

    def change_rows(self, batch: ScheduleBatch) -> None:
        for number in batch.released:
            self.release(number)
        for new in batch.admitted:
            self.admit(new)
        for rewrite in batch.rewrites:
            self.rewrite(rewrite)
        for appended in batch.appended:
            self.append(appended)

    def release(self, number: int) -> None:
        del self.rows[number]

    def admit(self, new: NewRow) -> None:
        self.rows[new.row] = Row(
            new.row, [*new.tokens], new.prompt_len, [*new.slots], new.sampling, new.logprobs_from, new.tree
        )

    def rewrite(self, rewrite: Rewrite) -> None:
        self.rows[rewrite.row].slots[rewrite.start : rewrite.start + len(rewrite.slots)] = rewrite.slots

    def append(self, appended: Appended) -> None:
        self.rows[appended.row].tokens += appended.tokens

    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        for guess in batch.guesses:
            self.rows[guess.row].guesses = [*guess.tokens]
        for number, count, samples in zip(batch.rows, batch.counts, batch.samples, strict=True):
            start = len(self.rows[number].slots)
            yield Span(self.rows[number], start, start + count, samples)

    # ------------------------------------------------------------------------------------------------- the model

    def write(self, span: Span) -> None:
        known = span.row.tokens + span.row.guesses
        for index in range(span.start, span.stop):
            self.kv[span.row.slots[index]] = self.position(span.row, index) * VOCAB + known[index]

    def position(self, row: Row, index: int) -> int:
        return len(self.seen(row, index)) - 1

    def seen(self, row: Row, index: int) -> list[int]:
        """Of the row's tokens those that token ``index`` attends to, itself the last."""
        if row.tree is None or index < row.prompt_len:
            return list(range(index + 1))
        parent = row.tree.parents[index - row.prompt_len]
        return [*self.seen(row, row.prompt_len + parent), index]

    def logits(self, row: Row, index: int) -> Logits:
        """What follows token ``index``."""
        return formula(tuple(self.kv[row.slots[each]] for each in self.seen(row, index)))

    # -------------------------------------------------------------------------------------------------- sampling

    def sample(self, masks: Masks | None) -> Pending:
        allowed = unpacked(masks) if masks else {}
        sampled = [(span.row, token, at) for span in self.spans for token, at in self.go_on(span, allowed)]
        asked = any(row.sampling.logprobs >= 0 for row, _, _ in sampled)
        return Ready(
            StepOutput(
                step=self.batch.step,
                rows=ints(row.number for row, _, _ in sampled),
                tokens=ints(token for _, token, _ in sampled),
                logprobs=[self.logprobs(row, token, logits) for row, token, logits in sampled] if asked else [],
                prompt_logprobs=[found for span in self.spans if (found := self.prompt_logprobs(span)).entries],
                scores=[found for span in self.spans if (found := self.scores(span)).asked],
            )
        )

    def go_on(self, span: Span, allowed: Mapping[int, Logits]) -> list[tuple[int, Logits]]:
        """The tokens that a row goes on with, each with the logits it comes from."""
        row, found = span.row, list[tuple[int, Logits]]()
        guesses, row.guesses = row.guesses, []
        for order, index in enumerate(range(span.stop - span.samples, span.stop)):
            logits = self.logits(row, index)
            token = self.choose(logits, row, allowed.get(row.number))
            row.tokens.append(max(token, 0))
            found.append((token, logits))
            if order < len(guesses) and guesses[order] != token:
                break
        if guesses:
            del row.slots[len(row.tokens) - 1 :]
        return found

    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        """A token, or -1 where nothing is allowed; ``allowed`` is 0 for those that are, and -inf."""
        work = self.biased(self.penalised(logits.copy(), row), row.sampling)
        work = work if allowed is None else work + allowed
        if work.max() == -np.inf:
            return -1
        return int(work.argmax()) if row.sampling.temperature == 0 else self.draw(work, row)

    def penalised(self, work: Logits, row: Row) -> Logits:
        sampling, written = row.sampling, row.tokens[row.prompt_len :]
        known = sorted(set(row.tokens))
        by = sampling.repetition_penalty
        work[known] = np.where(work[known] > 0, work[known] / by, work[known] * by)
        for token in set(written):
            work[token] -= sampling.presence_penalty + sampling.frequency_penalty * written.count(token)
        return work

    def biased(self, work: Logits, sampling: TokenSampling) -> Logits:
        for token, bias in sampling.logit_bias.items():
            work[token] += bias
        return work

    def draw(self, work: Logits, row: Row) -> int:
        sampling = row.sampling
        order = np.argsort(-work, kind="stable")[: sampling.top_k or None]
        weights = np.exp((work[order] - work[order[0]]) / sampling.temperature)
        before = np.cumsum(weights) - weights
        weights[(before >= sampling.top_p * weights.sum()) | (weights < sampling.min_p)] = 0
        cumulative = np.cumsum(weights)
        return int(order[np.searchsorted(cumulative, self.chance(row) * cumulative[-1], side="right")])

    def chance(self, row: Row) -> float:
        """In [0, 1)."""
        return uniform(row.sampling.seed, len(row.tokens))

    # -------------------------------------------------------------------------------------------------- logprobs

    def logprobs(self, row: Row, token: int, logits: Logits) -> Logprobs | None:
        asked = row.sampling.logprobs
        return entry(logits, token, asked) if asked >= 0 and token >= 0 else None

    def prompt_logprobs(self, span: Span) -> PromptLogprobs:
        row, top = span.row, span.row.sampling.prompt_logprobs
        start, stop = max(span.start + 1, row.logprobs_from), min(span.stop + 1, row.prompt_len)
        wanted = range(start, stop) if top >= 0 else ()
        return PromptLogprobs(
            row.number, start, [entry(self.logits(row, each - 1), row.tokens[each], top) for each in wanted]
        )

    def scores(self, span: Span) -> TreeScores:
        row, asked, scores = span.row, ints(), list[float]()
        for number, place in enumerate(row.tree.places if row.tree else ()):
            if span.start <= row.prompt_len + place < span.stop:
                asked.append(number)
                scores.append(self.score(row, place, row.tree.tokens[number] if row.tree else 0))
        return TreeScores(row.number, asked, scores)

    def score(self, row: Row, place: int, token: int) -> float:
        return float(log_softmax(self.logits(row, row.prompt_len + place))[token])

    def close(self) -> None:
        self.kv, self.rows = [], {}


@lru_cache(maxsize=2**16)
def formula(line: tuple[int, ...]) -> Logits:
    logits: Logits = np.random.default_rng(abs(hash(line))).normal(0, 3, VOCAB)
    logits.flags.writeable = False
    return logits


@lru_cache(maxsize=2**16)
def uniform(seed: int, position: int) -> float:
    return float(np.random.default_rng([seed, position]).random())


def log_softmax(logits: Logits) -> Logits:
    shifted: Logits = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def entry(logits: Logits, token: int, top: int) -> Logprobs:
    logprobs = log_softmax(logits)
    likeliest = np.argsort(-logprobs, kind="stable")[:top]
    return Logprobs(token, float(logprobs[token]), ints(likeliest.tolist()), logprobs[likeliest].tolist())


def unpacked(masks: Masks) -> dict[int, Logits]:
    """By row: 0 for each token that is allowed, else -inf."""
    words = np.frombuffer(masks.words, np.uint8).reshape(len(masks.rows), -1 if len(masks.rows) else 0)
    bits = np.unpackbits(words, axis=1, count=VOCAB, bitorder="little")
    return dict(zip(masks.rows, np.where(bits, 0.0, -np.inf), strict=True))
