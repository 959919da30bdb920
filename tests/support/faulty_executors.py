"""Executors with one fault each, in how they load, keep rows and compute them; see FormulaExecutor for a sound one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from formula_backend import FormulaExecutor, Logits, Row, Span, formula

from sgframe.interfaces.backend import ExecutorSpec, Pending
from sgframe.messages import Appended, Loaded, Masks, NewRow, Rewrite, ScheduleBatch, StepOutput

# ------------------------------------------------------------------------------------------------- load and close


class AnnouncesAnotherPageSize(FormulaExecutor):
    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        loaded = super().load(spec, progress)
        return Loaded(loaded.vocab_size, loaded.context_length, loaded.slots, 2, loaded.dtype, loaded.ledger)


class IgnoresTheMemoryForKV(FormulaExecutor):
    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        return super().load(replace(spec, kv_bytes=2**16), progress)


class ClosesOnce(FormulaExecutor):
    def close(self) -> None:
        del self.kv


# ------------------------------------------------------------------------------------------------------- the rows


class AdmitsWhereItReleased(FormulaExecutor):
    def change_rows(self, batch: ScheduleBatch) -> None:
        moved = dict(zip((new.row for new in batch.admitted), batch.released, strict=False))
        admitted = [NewRow(moved.get(new.row, new.row), *_rest(new)) for new in batch.admitted]
        super().change_rows(_with(batch, admitted=admitted))


class TakesARetractedRowToBeThereStill(FormulaExecutor):
    """Of a request that comes back it computes what is new alone."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.retracted: list[Row] = []
        return super().load(spec, progress)

    def release(self, number: int) -> None:
        self.retracted.append(self.rows[number])
        super().release(number)

    def write(self, span: Span) -> None:
        tokens, resumes = span.row.tokens, len(span.row.tokens) > span.row.prompt_len and not span.row.tree
        there = [len(old.slots) for old in self.retracted if resumes and old.tokens == tokens]
        super().write(replace(span, start=max([span.start, *there])))


class LeavesTheTailOfALongRow(FormulaExecutor):
    """Where more than 40 tokens were, the next row reads one of them."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.tails: dict[int, int] = {}
        return super().load(spec, progress)

    def release(self, number: int) -> None:
        if len(self.rows[number].slots) > 40:
            self.tails[number] = self.rows[number].slots[-1]
        super().release(number)

    def logits(self, row: Row, index: int) -> Logits:
        tail = [self.kv[self.tails[row.number]]] if row.number in self.tails else []
        return formula((*(self.kv[row.slots[each]] for each in self.seen(row, index)), *tail))


class CountsFromTheCachedPrefix(FormulaExecutor):
    """The first token that it computes itself is at position 0."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.cached: dict[int, int] = {}
        return super().load(spec, progress)

    def admit(self, new: NewRow) -> None:
        super().admit(new)
        self.cached[new.row] = len(new.slots)

    def position(self, row: Row, index: int) -> int:
        return super().position(row, index) - self.cached[row.number]


class LendsAPrefixOnce(FormulaExecutor):
    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.lent = Counter[int]()
        return super().load(spec, progress)

    def admit(self, new: NewRow) -> None:
        super().admit(new)
        self.lent[new.slots[0] if new.slots else -1] += 1
        if new.slots and self.lent[new.slots[0]] > 1:
            self.rows[new.row].slots[0] = 0 if new.slots[0] else 1


class ForgetsRewrites(FormulaExecutor):
    def rewrite(self, rewrite: Rewrite) -> None:
        pass


class RewritesFromTheStart(FormulaExecutor):
    def rewrite(self, rewrite: Rewrite) -> None:
        super().rewrite(Rewrite(rewrite.row, 0, rewrite.slots))


class RewritesOneRowAStep(FormulaExecutor):
    def change_rows(self, batch: ScheduleBatch) -> None:
        super().change_rows(_with(batch, rewrites=batch.rewrites[:1]))


class ForgetsForcedTokens(FormulaExecutor):
    """It goes on with zeros."""

    def append(self, appended: Appended) -> None:
        self.rows[appended.row].tokens += [0] * len(appended.tokens)


class ForcesOneRowAStep(FormulaExecutor):
    def change_rows(self, batch: ScheduleBatch) -> None:
        first = {appended.row for appended in batch.appended[:1]}
        super().change_rows(batch)
        for appended in batch.appended:
            if appended.row not in first:
                self.rows[appended.row].tokens[-len(appended.tokens) :] = [0] * len(appended.tokens)


class ForcesBeforeWhatIsStillToCome(FormulaExecutor):
    def append(self, appended: Appended) -> None:
        super().append(appended)
        tokens, count = self.rows[appended.row].tokens, len(appended.tokens)
        if self.late.untold:
            tokens[-count - 1 :] = [*tokens[-count:], tokens[-count - 1]]

    def sample(self, masks: Masks | None) -> Pending:
        self.late = Late(super().sample(masks))
        return self.late


# ------------------------------------------------------------------------------------------------------ computing


class KeepsFourChunks(FormulaExecutor):
    """The first token of a prefill in more than four is lost."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.chunks = Counter[Row]()
        return super().load(spec, progress)

    def write(self, span: Span) -> None:
        super().write(span)
        self.chunks[span.row] += not span.samples and span.row.tree is None
        if self.chunks[span.row] > 4:
            self.kv[span.row.slots[0]] = -1


class AttendsRowByRow(FormulaExecutor):
    """What a later row of the batch writes, an earlier one does not see."""

    def forward(self, batch: ScheduleBatch) -> None:
        self.seen_kv: dict[Row, list[int]] = {}
        super().forward(batch)

    def write(self, span: Span) -> None:
        super().write(span)
        self.seen_kv[span.row] = self.kv[:]

    def logits(self, row: Row, index: int) -> Logits:
        return formula(tuple(self.seen_kv[row][row.slots[each]] for each in self.seen(row, index)))


class ComputesThreeRows(FormulaExecutor):
    """The others get the logits of the third."""

    def logits(self, row: Row, index: int) -> Logits:
        rows = [span.row for span in self.spans]
        third = rows[2] if rows.index(row) > 2 else row
        return super().logits(third, index if third is row else len(third.slots) - 1)


class DecodesNothingBesideAPrefill(FormulaExecutor):
    """A row of one token that stands behind one of several misses what came before it."""

    def logits(self, row: Row, index: int) -> Logits:
        rows = [span.row for span in self.spans]
        counts = {span.row: span.stop - span.start for span in self.spans}
        before = rows[: rows.index(row)]
        if counts[row] == 1 and any(counts[each] > 1 and each.tree is None for each in before) and row.tree is None:
            return formula((self.kv[row.slots[index]],))
        return super().logits(row, index)


class DecodesNoMoreThanAHundredTokens(FormulaExecutor):
    """A row of one token sees the last hundred."""

    def logits(self, row: Row, index: int) -> Logits:
        (span,) = (span for span in self.spans if span.row is row)
        seen = self.seen(row, index)[-100 if span.stop - span.start == 1 else 0 :]
        return formula(tuple(self.kv[row.slots[each]] for each in seen))


class StopsAtALostRow(FormulaExecutor):
    """Lets nobody go on once a row has no token."""

    lost = False

    def go_on(self, span: Span, allowed: Mapping[int, Logits]) -> list[tuple[int, Logits]]:
        found = super().go_on(span, allowed)
        self.lost |= -1 in [token for token, _ in found]
        return found

    def write(self, span: Span) -> None:
        assert not self.lost
        super().write(span)


# -------------------------------------------------------------------------------------------- results that come later


@dataclass(eq=False)
class Late:
    """A result that is told, once somebody asks for it."""

    pending: Pending
    untold: bool = True

    def done(self) -> bool:
        return not self.untold

    def result(self) -> StepOutput:
        self.untold = False
        return self.pending.result()


class LearnsItsTokensLate(FormulaExecutor):
    """Until a result is asked for, the row goes on with token 0."""

    def sample(self, masks: Masks | None) -> Pending:
        pending = super().sample(masks)
        output = pending.result()
        rows = [self.rows[number] for number in output.rows]
        for row in rows:
            row.tokens[-1] = 0
        return Telling(pending, rows)


@dataclass(frozen=True)
class Telling:
    pending: Pending
    rows: list[Row]

    def done(self) -> bool:
        return True

    def result(self) -> StepOutput:
        output = self.pending.result()
        for row, token in zip(self.rows, output.tokens, strict=True):
            where = len(row.tokens) - 1 - row.tokens[::-1].index(0) if 0 in row.tokens else -1
            row.tokens[where] = max(token, 0)
        return output


class DropsTheResultOfAReleasedRow(FormulaExecutor):
    def sample(self, masks: Masks | None) -> Pending:
        return Dropping(super().sample(masks), self, [span.row for span in self.spans])


@dataclass(frozen=True)
class Dropping:
    pending: Pending
    executor: FormulaExecutor
    rows: list[Row]

    def done(self) -> bool:
        return True

    def result(self) -> StepOutput:
        output, held = self.pending.result(), self.executor.rows.values()
        return (
            output
            if all(row in held for row in self.rows)
            else StepOutput(output.step, output.rows[:0], output.rows[:0])
        )


class RelaysTokensByPlace(FormulaExecutor):
    """A token that is not told yet goes to the row at the place of the one that it was sampled for."""

    late: Late | None = None

    def sample(self, masks: Masks | None) -> Pending:
        self.late = Late(super().sample(masks))
        self.places = [span.row for span in self.spans]
        return self.late

    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        spans = list(super().plan(batch))
        if self.late is not None and self.late.untold:
            ahead = [span.row for span in spans if span.row in self.places]
            tokens = [self.places[place].tokens[-1] for place in range(len(ahead))]
            for row, token in zip(ahead, tokens, strict=True):
                row.tokens[-1] = token
        return iter(spans)


def _rest(new: NewRow) -> tuple[object, ...]:
    return new.tokens, new.prompt_len, new.slots, new.sampling, new.logprobs_from, new.tree


def _with(batch: ScheduleBatch, **changes: object) -> ScheduleBatch:
    return ScheduleBatch(**{name: getattr(batch, name) for name in batch.__struct_fields__} | changes)
