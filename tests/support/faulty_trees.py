"""Executors with one fault each, in how they score trees and verify guesses; see FormulaExecutor for a sound one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
from formula_backend import FormulaExecutor, Logits, Row, Span

from sgframe.interfaces.backend import ExecutorSpec, Pending
from sgframe.messages import Loaded, Logprobs, Masks, NewRow, ScheduleBatch, StepOutput, TreeScores, ints

# ------------------------------------------------------------------------------------------------------------- trees


class AttendsToEveryNodeBefore(FormulaExecutor):
    def seen(self, row: Row, index: int) -> list[int]:
        return list(range(index + 1))


class NumbersNodesAlongTheRow(FormulaExecutor):
    """A node's position is its place in the row, not its depth."""

    def position(self, row: Row, index: int) -> int:
        return index


class TakesACutForTheRoot(FormulaExecutor):
    """A node whose parent was computed in an earlier step follows the prompt."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.cuts: dict[Row, int] = {}
        return super().load(spec, progress)

    def write(self, span: Span) -> None:
        self.cuts[span.row] = span.start
        super().write(span)

    def seen(self, row: Row, index: int) -> list[int]:
        seen, cut = super().seen(row, index), self.cuts.get(row, 0)
        if row.tree is None or index < cut:
            return seen
        return [each for each in seen if each < row.prompt_len or each >= cut]


class NeedsANode(FormulaExecutor):
    def scores(self, span: Span) -> TreeScores:
        if len(span.row.tokens) == span.row.prompt_len:
            return TreeScores(span.row.number, ints(), [])
        return super().scores(span)


class ScoresNothingAfterTheFirstToken(FormulaExecutor):
    """Of a row: what a prompt of one token has directly after it."""

    def scores(self, span: Span) -> TreeScores:
        return super().scores(replace(span, start=max(1, span.start)))


class TakesPlacesToBeInTurn(FormulaExecutor):
    """What is asked for as number i comes after node i - 1."""

    def admit(self, new: NewRow) -> None:
        if new.tree is not None and len(new.tree.tokens) <= len(new.tree.parents):
            turns = ints(range(-1, len(new.tree.tokens) - 1))
            new = msgspec.structs.replace(new, tree=msgspec.structs.replace(new.tree, places=turns))
        super().admit(new)


class TellsScoresAgain(FormulaExecutor):
    """Those of a tree's earlier steps come with each later one."""

    def scores(self, span: Span) -> TreeScores:
        first = len(span.row.slots[: span.row.prompt_len]) - 1
        return super().scores(replace(span, start=min(span.start, first)))


class TellsAllScoresInTheLastStep(FormulaExecutor):
    def scores(self, span: Span) -> TreeScores:
        whole = span.stop == len(span.row.tokens)
        return super().scores(replace(span, start=0) if whole else replace(span, start=span.stop))


class ScoresCachedNodes(FormulaExecutor):
    """As if its first step had computed them."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.begun: set[Row] = set()
        return super().load(spec, progress)

    def scores(self, span: Span) -> TreeScores:
        first = span.row not in self.begun
        self.begun.add(span.row)
        return super().scores(replace(span, start=0) if first else span)


class ReadsItsOwnCopyOnce(FormulaExecutor):
    """The first step after a rewrite still reads what was there, if the row has a tree."""

    def change_rows(self, batch: ScheduleBatch) -> None:
        trees = {row.number for row in self.rows.values() if row.tree is not None}
        kept = [rewrite for rewrite in batch.rewrites if rewrite.row not in trees]
        super().change_rows(msgspec.structs.replace(batch, rewrites=kept))


class SharesOneTree(FormulaExecutor):
    """All trees of a step are taken to be shaped like the first."""

    def seen(self, row: Row, index: int) -> list[int]:
        first = next((span.row.tree for span in self.spans if span.row.tree is not None), None)
        if row.tree is None or first is None or index - row.prompt_len >= len(first.parents):
            return super().seen(row, index)
        return super().seen(replace(row, tree=first), index)


class LeavesItsTreeToTheNextRow(FormulaExecutor):
    """Which then samples nothing."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.trees: set[int] = set()
        return super().load(spec, progress)

    def release(self, number: int) -> None:
        self.trees ^= {number} if self.rows[number].tree is not None else set()
        super().release(number)

    def go_on(self, span: Span, allowed: Mapping[int, Logits]) -> list[tuple[int, Logits]]:
        left = span.row.number in self.trees
        return super().go_on(replace(span, samples=0) if left else span, allowed)


# ----------------------------------------------------------------------------------------------------------- guesses


class KeepsEveryGuess(FormulaExecutor):
    def go_on(self, span: Span, allowed: Mapping[int, Logits]) -> list[tuple[int, Logits]]:
        guesses = span.row.guesses[:]
        found = super().go_on(span, allowed)
        if guesses and len(found) <= len(guesses):
            span.row.tokens[-1] = guesses[len(found) - 1]
            found[-1] = guesses[len(found) - 1], found[-1][1]
        return found


class KeepsOneGuessAtMost(FormulaExecutor):
    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        for span in super().plan(batch):
            yield span
            if span.row.guesses:
                wrong = [(token + 1) % 128 for token in span.row.guesses[1:]]
                span.row.guesses[1:] = wrong


class VerifiesOnce(FormulaExecutor):
    """Of a row whose guesses were verified before it keeps none."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.verified: list[Row] = []
        return super().load(spec, progress)

    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        for span in super().plan(batch):
            if span.row.guesses and self.verified.count(span.row) >= 1:
                span.row.guesses[0] = (span.row.guesses[0] + 1) % 128
            self.verified += [span.row] if span.row.guesses else []
            yield span


class MixesUpGuesses(FormulaExecutor):
    """Several rows with guesses get those of the first."""

    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        spans = list(super().plan(batch))
        for guess in batch.guesses[1:]:
            self.rows[guess.row].guesses = [*batch.guesses[0].tokens]
        return iter(spans)


class ForgetsGuessesOfAStepAhead(FormulaExecutor):
    """Of one whose row had a token still to come."""

    ahead = False

    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        for span in super().plan(batch):
            if span.row.guesses and self.untold and span.row in self.sampled:
                span.row.guesses[:] = [(token + 1) % 128 for token in span.row.guesses]
            yield span

    untold = False

    def sample(self, masks: Masks | None) -> Pending:
        pending = super().sample(masks)
        self.sampled, self.untold = [span.row for span in self.spans], True
        return Told(pending, self)


@dataclass(frozen=True)
class Told:
    pending: Pending
    executor: ForgetsGuessesOfAStepAhead

    def done(self) -> bool:
        return True

    def result(self) -> StepOutput:
        self.executor.untold = False
        return self.pending.result()


class TakesGuessesBackFromWhoeverHasTheRow(FormulaExecutor):
    """When the result is asked for."""

    def sample(self, masks: Masks | None) -> Pending:
        guessed = {span.row.number: span.row for span in self.spans if span.row.guesses}
        return TakingBack(super().sample(masks), self, guessed)


@dataclass(frozen=True)
class TakingBack:
    pending: Pending
    executor: FormulaExecutor
    guessed: dict[int, Row]

    def done(self) -> bool:
        return True

    def result(self) -> StepOutput:
        for number, row in self.guessed.items():
            holder = self.executor.rows[number]
            if holder is not row:
                self.executor.kv[holder.slots[0]] = -1
        return self.pending.result()


class KeepsTheKVOfAWrongGuess(FormulaExecutor):
    """The token that was sampled in its place is not written."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.wrong: dict[Row, int] = {}
        return super().load(spec, progress)

    def go_on(self, span: Span, allowed: Mapping[int, Logits]) -> list[tuple[int, Logits]]:
        found = super().go_on(span, allowed)
        if span.samples > len(found):
            self.wrong[span.row] = len(span.row.tokens) - 1
        return found

    def write(self, span: Span) -> None:
        kept = self.kv[:]
        super().write(span)
        if self.wrong.pop(span.row, -1) == span.start:
            self.kv[span.row.slots[span.start]] = kept[span.row.slots[span.start]]


class TellsTheLogprobsOfOneGuess(FormulaExecutor):
    def sample(self, masks: Masks | None) -> Pending:
        self.told: set[Row] = set()
        return super().sample(masks)

    def logprobs(self, row: Row, token: int, logits: Logits) -> Logprobs | None:
        again = row in self.told
        self.told.add(row)
        return None if again else super().logprobs(row, token, logits)
