"""Executors with one fault each, in whom they sample, how, and what they tell of it; see FormulaExecutor for a sound one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from faulty_executors import Late
from formula_backend import FormulaExecutor, Logits, Row, Span, entry, uniform

from sgframe.interfaces.backend import ExecutorSpec, Pending, Ready
from sgframe.messages import Loaded, Logprobs, Masks, PromptLogprobs, ScheduleBatch, StepOutput, ints
from sgframe.sampling import TokenSampling

# ---------------------------------------------------------------------------------------------------- who is sampled


class Retelling(FormulaExecutor):
    """Tells something else than it sampled."""

    def retold(self, output: StepOutput) -> StepOutput:
        raise NotImplementedError

    def sample(self, masks: Masks | None) -> Pending:
        return Ready(self.retold(super().sample(masks).result()))


class CountsStepsFromOne(Retelling):
    def retold(self, output: StepOutput) -> StepOutput:
        return msgspec.structs.replace(output, step=output.step + 1)


class TellsRowsInTheirOrder(Retelling):
    """By number, and not as the batch has them; each with its own token."""

    def retold(self, output: StepOutput) -> StepOutput:
        order = sorted(range(len(output.rows)), key=lambda place: output.rows[place])
        rows, tokens = (ints(values[place] for place in order) for values in (output.rows, output.tokens))
        logprobs = [output.logprobs[place] for place in order] if output.logprobs else []
        return msgspec.structs.replace(output, rows=rows, tokens=tokens, logprobs=logprobs)


class SamplesWhoWantsNoToken(FormulaExecutor):
    def plan(self, batch: ScheduleBatch) -> Iterator[Span]:
        for span in super().plan(batch):
            whole = span.stop == len(span.row.tokens) and span.row.tree is None
            yield replace(span, samples=max(span.samples, int(whole)))


class NeedsSomebodyToSample(FormulaExecutor):
    def sample(self, masks: Masks | None) -> Pending:
        if not any(span.samples or span.row.tree for span in self.spans):
            return Ready(StepOutput(self.batch.step, ints(), ints()))
        return super().sample(masks)


# ------------------------------------------------------------------------------------------------------------- masks


class MasksByPlace(FormulaExecutor):
    """The first mask is for the first row of the batch."""

    def sample(self, masks: Masks | None) -> Pending:
        if masks is None:
            return super().sample(None)
        places = ints(span.row.number for span in self.spans)[: len(masks.rows)]
        return super().sample(Masks(masks.step, places, masks.words))


class ForbidsAllWithoutAMask(FormulaExecutor):
    """Where masks are for others, or nobody."""

    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        return 0 if allowed is None and self.batch.masked and not self.masked else super().choose(logits, row, allowed)

    def sample(self, masks: Masks | None) -> Pending:
        self.masked = masks is not None and len(masks.rows) > 0
        return super().sample(masks)


class AllowsWhatIsBeyondAMask(FormulaExecutor):
    def sample(self, masks: Masks | None) -> Pending:
        self.end = 8 * len(masks.words) // max(1, len(masks.rows)) if masks else 0
        return super().sample(masks)

    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        if allowed is not None:
            allowed = np.where(np.arange(len(allowed)) >= self.end, 0.0, allowed)
        return super().choose(logits, row, allowed)


class TakesAnythingWhereNothingIsAllowed(FormulaExecutor):
    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        nothing = allowed is not None and allowed.max() == -np.inf
        return super().choose(logits, row, None if nothing else allowed)


class LetsAMaskPassOnce(FormulaExecutor):
    """The first row that has a mask goes on without."""

    passed = False

    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        if allowed is None or self.passed:
            return super().choose(logits, row, allowed)
        self.passed = True
        return super().choose(logits, row, None)


class DropsMasksOfAStepAhead(FormulaExecutor):
    """Of one whose forward came before the result of the last."""

    late: Late | None = None

    def forward(self, batch: ScheduleBatch) -> None:
        self.ahead = self.late is not None and self.late.untold
        super().forward(batch)

    def sample(self, masks: Masks | None) -> Pending:
        self.late = Late(super().sample(None if self.ahead else masks))
        return self.late


class DrawsWithoutAMask(FormulaExecutor):
    def choose(self, logits: Logits, row: Row, allowed: Logits | None) -> int:
        token = super().choose(logits, row, allowed)
        return token if token < 0 else super().choose(logits, row, None if row.sampling.temperature else allowed)


# ---------------------------------------------------------------------------------------------------------- logprobs


class TellsLogprobsUnasked(Retelling):
    def retold(self, output: StepOutput) -> StepOutput:
        return msgspec.structs.replace(output, logprobs=output.logprobs or [None] * len(output.tokens))


class GivesOneLikeliestMore(FormulaExecutor):
    def logprobs(self, row: Row, token: int, logits: Logits) -> Logprobs | None:
        asked = row.sampling.logprobs
        return entry(logits, token, asked + 1) if asked >= 1 else super().logprobs(row, token, logits)


class TellsLogprobsOfWhatItDrewFrom(FormulaExecutor):
    def logprobs(self, row: Row, token: int, logits: Logits) -> Logprobs | None:
        return super().logprobs(row, token, self.biased(logits.copy(), row.sampling))


class LosesAPromptLogprobAtACut(FormulaExecutor):
    def prompt_logprobs(self, span: Span) -> PromptLogprobs:
        found = super().prompt_logprobs(span)
        if span.start == 0 or not found.entries:
            return found
        return PromptLogprobs(found.row, found.start + 1, found.entries[1:])


class TellsPromptLogprobsOfOneRow(Retelling):
    def retold(self, output: StepOutput) -> StepOutput:
        return msgspec.structs.replace(output, prompt_logprobs=output.prompt_logprobs[:1])


class TellsPromptLogprobsThatNobodyWants(FormulaExecutor):
    """From the first that there are."""

    def prompt_logprobs(self, span: Span) -> PromptLogprobs:
        span.row.logprobs_from = 1
        return super().prompt_logprobs(span)


# ---------------------------------------------------------------------------------------------- what a draw depends on


class DrawsWithOneSeed(FormulaExecutor):
    def chance(self, row: Row) -> float:
        return uniform(0, len(row.tokens))


class DrawsTheSameAtEachPosition(FormulaExecutor):
    def chance(self, row: Row) -> float:
        return uniform(row.sampling.seed, 0)


class DrawsByPlaceInTheBatch(FormulaExecutor):
    def chance(self, row: Row) -> float:
        return uniform(row.sampling.seed + [span.row for span in self.spans].index(row), len(row.tokens))


class DrawsBySteps(FormulaExecutor):
    """By how many a row has been in."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.steps = Counter[Row]()
        return super().load(spec, progress)

    def write(self, span: Span) -> None:
        super().write(span)
        self.steps[span.row] += 1

    def chance(self, row: Row) -> float:
        return uniform(row.sampling.seed, len(row.tokens) + 1000 * (self.steps[row] - len(row.tokens) + row.prompt_len))


class DrawsByWhatItComputed(FormulaExecutor):
    """What is cached does not count."""

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.computed = Counter[Row]()
        return super().load(spec, progress)

    def write(self, span: Span) -> None:
        super().write(span)
        self.computed[span.row] += span.stop - span.start

    def chance(self, row: Row) -> float:
        return uniform(row.sampling.seed, self.computed[row])


class DrawsByLengthOfOutput(FormulaExecutor):
    def chance(self, row: Row) -> float:
        return uniform(row.sampling.seed, len(row.tokens) - row.prompt_len)


class TakesEarlierOutputForPrompt(FormulaExecutor):
    def penalised(self, work: Logits, row: Row) -> Logits:
        written = Row(row.number, row.tokens, row.prompt_len + self.earlier[row.number], [], row.sampling, 1, None)
        return super().penalised(work, written)

    def load(self, spec: ExecutorSpec, progress: Callable[[str, int, int], None]) -> Loaded:
        self.earlier: dict[int, int] = {}
        return super().load(spec, progress)

    def admit(self, new: Any) -> None:
        super().admit(new)
        self.earlier[new.row] = len(new.tokens) - new.prompt_len


class PenalisesWhatWasToldOnly(FormulaExecutor):
    """A token whose result nobody has asked for does not count yet."""

    late: Late | None = None

    def forward(self, batch: ScheduleBatch) -> None:
        self.ahead = self.late is not None and self.late.untold
        super().forward(batch)

    def sample(self, masks: Masks | None) -> Pending:
        self.late = Late(super().sample(masks))
        return self.late

    def penalised(self, work: Logits, row: Row) -> Logits:
        told = row.tokens[:-1] if self.ahead and len(row.tokens) > row.prompt_len else row.tokens
        return super().penalised(work, replace(row, tokens=told))


# -------------------------------------------------------------------------------------------------------- parameters


class Resampling(FormulaExecutor):
    """Takes other parameters than it was given."""

    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        raise NotImplementedError

    def admit(self, new: Any) -> None:
        changed = msgspec.structs.replace(new.sampling, **self.instead(new.sampling))
        super().admit(msgspec.structs.replace(new, sampling=changed))


class IgnoresTopP(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        return {"top_p": 1.0}


class IgnoresMinP(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        return {"min_p": 0.0}


class KeepsOneMoreThanTopK(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        return {"top_k": sampling.top_k and sampling.top_k + 1}


class IgnoresBias(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        return {"logit_bias": {}}


class IgnoresPresence(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        return {"presence_penalty": 0.0}


class CountsPresenceEachTime(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        penalty = sampling.presence_penalty + sampling.frequency_penalty
        return {"presence_penalty": 0.0, "frequency_penalty": penalty}


class CountsFrequencyOnce(Resampling):
    def instead(self, sampling: TokenSampling) -> dict[str, Any]:
        penalty = sampling.presence_penalty + sampling.frequency_penalty
        return {"presence_penalty": penalty, "frequency_penalty": 0.0}


class PenalisesThePromptToo(FormulaExecutor):
    def penalised(self, work: Logits, row: Row) -> Logits:
        return super().penalised(work, replace(row, prompt_len=0))


class RepeatsTheOutputFreely(FormulaExecutor):
    """Its repetition penalty counts the prompt alone."""

    def penalised(self, work: Logits, row: Row) -> Logits:
        freely = msgspec.structs.replace(row.sampling, repetition_penalty=1.0)
        prompt = replace(row, tokens=row.tokens[: row.prompt_len])
        return super().penalised(super().penalised(work, replace(row, sampling=freely)), prompt)
