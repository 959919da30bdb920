"""From logits to tokens: penalties, bias, mask, temperature, filters, draw. Knows nothing of models, slots or batches.

The order is: repetition penalty, frequency and presence penalties, logit bias, grammar mask, temperature, top-k, top-p,
min-p, draw. Each row's outcome depends on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sgframe.messages import Ints, Logprobs
from sgframe.sampling import TokenSampling
from sgframe_torch.logprobs import keep_largest, token_logprobs

INVALID = -1
"""The token of a row whose logits are not finite, or whose mask leaves nothing to choose."""

_FIRST_CANDIDATES = 64
_GROWTH = 16


class RowState(Protocol):
    """What the sampler reads of a row: all known tokens, of which the first ``prompt_len`` are the prompt."""

    @property
    def tokens(self) -> Ints: ...

    @property
    def prompt_len(self) -> int: ...

    @property
    def sampling(self) -> TokenSampling: ...


@dataclass(frozen=True, slots=True)
class Sampled:
    """``tokens[i]`` and ``logprobs[i]`` of row i; no list of logprobs at all (empty) when no row asked for any."""

    tokens: list[int]
    logprobs: list[Logprobs | None]


class Sampler:
    """Chooses the next token of each row. Logits beyond ``vocab_size`` (a padded output layer) are never chosen."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def sample(self, logits: Tensor, states: Sequence[RowState], masks: Tensor | None) -> Sampled:
        """The next token of each row of ``logits`` [rows, vocab]; ``logits`` are left as they are.

        ``masks`` [rows, ceil(vocab / 32)] int32: token t of a row is allowed if bit t % 32 of word t // 32 is set. A row
        with NaN, +inf or no finite logit gets INVALID and no logprobs. Temperature 0 takes the largest logit, the lower
        id among equals.
        """
        logits = logits[:, : self._vocab_size]
        largest, chosen = logits.max(dim=-1)  # NaN wins a maximum, so one look at it judges the whole row
        finite = largest.isfinite()
        shaped = [i for i, state in enumerate(states) if masks is not None or not _takes_argmax(state.sampling)]
        if shaped:
            rows = torch.tensor(shaped, device=logits.device)
            work = logits[rows].float()
            chosen[rows] = _choose(work, [states[i] for i in shaped], None if masks is None else masks[rows])
        tokens: list[int] = torch.where(finite, chosen, INVALID).tolist()
        return Sampled(tokens, _logprobs(logits, tokens, states))


def _takes_argmax(sampling: TokenSampling) -> bool:
    return sampling.temperature == 0 and not sampling.logit_bias and not _penalised(sampling)


def _penalised(sampling: TokenSampling) -> bool:
    return bool(sampling.repetition_penalty != 1 or sampling.frequency_penalty or sampling.presence_penalty)


def _logprobs(logits: Tensor, tokens: list[int], states: Sequence[RowState]) -> list[Logprobs | None]:
    if all(state.sampling.logprobs < 0 for state in states):
        return []
    asked = [i for i, state in enumerate(states) if state.sampling.logprobs >= 0 and tokens[i] != INVALID]
    chosen = torch.tensor([tokens[i] for i in asked], dtype=torch.int64, device=logits.device)
    entries = iter(token_logprobs(logits[asked], chosen, [states[i].sampling.logprobs for i in asked]))
    wanted = set(asked)
    return [next(entries) if i in wanted else None for i in range(len(states))]


def _choose(work: Tensor, states: Sequence[RowState], masks: Tensor | None) -> Tensor:
    """Next tokens [n] of the rows of ``work`` [n, vocab] float32, which is overwritten."""
    _penalise(work, states)
    if masks is not None:
        work.masked_fill_(~unpack_mask(masks, work.shape[1]), -torch.inf)
    largest, chosen = work.max(dim=-1)
    drawn = [i for i, state in enumerate(states) if state.sampling.temperature > 0]
    if drawn:
        rows = torch.tensor(drawn, device=work.device)
        chosen[rows] = _draw(work[rows], largest[rows], [states[i] for i in drawn])
    return torch.where(largest.isfinite(), chosen, INVALID)


# -------------------------------------------------------------------------------------- penalties, bias, mask

_Edits = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def _penalise(work: Tensor, states: Sequence[RowState]) -> None:
    _edit(work, map(_repetition, states), lambda old, penalty: torch.where(old > 0, old / penalty, old * penalty))
    _edit(work, map(_frequency_and_presence, states), torch.sub)
    _edit(work, map(_bias, states), torch.add)


def _edit(work: Tensor, edits: Iterable[_Edits | None], change: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Replace single logits by ``change(logit, value)``; ``edits`` gives each row's distinct ids and values, or None."""
    found = [(row, *edit) for row, edit in enumerate(edits) if edit is not None]
    if not found:
        return
    rows = np.concatenate([np.full(len(ids), row) for row, ids, _ in found])
    where = torch.from_numpy(np.stack([rows, np.concatenate([ids for _, ids, _ in found])])).to(work.device)
    values = torch.from_numpy(np.concatenate([values for *_, values in found])).to(work.device)
    work[where[0], where[1]] = change(work[where[0], where[1]], values)


def _repetition(state: RowState) -> _Edits | None:
    if state.sampling.repetition_penalty == 1:
        return None
    ids = np.unique(np.array(state.tokens, np.int64))
    return ids, np.full(len(ids), state.sampling.repetition_penalty, np.float32)


def _frequency_and_presence(state: RowState) -> _Edits | None:
    sampling = state.sampling
    if not sampling.frequency_penalty and not sampling.presence_penalty:
        return None
    ids, counts = np.unique(np.array(state.tokens[state.prompt_len :], np.int64), return_counts=True)
    return ids, (sampling.frequency_penalty * counts + sampling.presence_penalty).astype(np.float32)


def _bias(state: RowState) -> _Edits | None:
    bias = state.sampling.logit_bias
    return (np.array([*bias], np.int64), np.array([*bias.values()], np.float32)) if bias else None


def unpack_mask(words: Tensor, vocab_size: int) -> Tensor:
    """Booleans [rows, vocab] from packed ``words`` [rows, ceil(vocab / 32)] int32."""
    bits = torch.arange(32, dtype=torch.int32, device=words.device)
    return (words.unsqueeze(-1) >> bits & 1).bool().flatten(1)[:, :vocab_size]


# ----------------------------------------------------------------------------------------------- filters, draw


def _draw(logits: Tensor, largest: Tensor, states: Sequence[RowState]) -> Tensor:
    """Draw from ``logits`` [n, vocab], whose row maxima are ``largest`` [n], by inverting the cumulative distribution."""
    samplings = [state.sampling for state in states]
    temperatures = _column([s.temperature for s in samplings], logits).clamp(min=torch.finfo(torch.float32).tiny)
    probabilities = torch.softmax((logits - largest.unsqueeze(1)) / temperatures, dim=-1)  # at most 0: cannot overflow
    _filter(probabilities, samplings)
    cumulative = probabilities.double().cumsum(dim=-1)
    uniforms = [uniform(state.sampling.seed, len(state.tokens)) for state in states]
    targets = _column(uniforms, cumulative) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True).view(-1)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that is a function of ``seed`` and ``position`` alone: SplitMix64 (Steele et al. 2014)."""
    return (_mix(_mix(seed) + (position + 1) * 0x9E3779B97F4A7C15) >> 11) * 2.0**-53


def _mix(value: int) -> int:
    value &= 0xFFFFFFFFFFFFFFFF
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    value = (value ^ value >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return value ^ value >> 31


def _filter(probabilities: Tensor, samplings: Sequence[TokenSampling]) -> None:
    """Set to 0 what top-k, top-p and min-p leave out of ``probabilities`` [n, vocab]."""
    vocab_size = probabilities.shape[1]
    pending = [i for i, s in enumerate(samplings) if 0 < s.top_k < vocab_size or s.top_p < 1]
    size = _FIRST_CANDIDATES
    while pending:
        size = min(size, vocab_size)
        ready = [i for i in pending if samplings[i].top_k <= size or size == vocab_size]
        done = _keep_candidates(probabilities, ready, [samplings[i] for i in ready], size) if ready else set()
        pending = [i for i in pending if i not in done]
        size *= _GROWTH
    ratios = [s.min_p for s in samplings]
    if any(ratios):
        floor = probabilities.amax(dim=-1, keepdim=True) * _column(ratios, probabilities)
        probabilities.masked_fill_(probabilities < floor, 0)


def _keep_candidates(probabilities: Tensor, rows: list[int], samplings: Sequence[TokenSampling], size: int) -> set[int]:
    """Apply top-k and top-p to ``rows`` of ``probabilities`` by looking at their ``size`` likeliest tokens only.

    Returns the rows that this decides; the nucleus of the others is larger, and they are left as they were. Which rows
    stand together changes nothing.
    """
    chosen = torch.tensor(rows, device=probabilities.device)
    values = probabilities[chosen]
    top = values.topk(size).values
    cumulative = top.cumsum(dim=-1, dtype=torch.float64)
    limits = torch.tensor([min(s.top_k or size, size) for s in samplings], device=top.device)
    after_top_k = cumulative.gather(1, limits.view(-1, 1) - 1)
    totals = torch.where(_column([s.top_k for s in samplings], top) > 0, after_top_k, 1.0)
    wanted = _column([s.top_p for s in samplings], cumulative) * totals
    nucleus = 1 + (cumulative[:, :-1] < wanted).sum(dim=-1)  # a token belongs if those before it fall short of top-p
    decided = (cumulative[:, -1:] >= wanted) | (size == values.shape[1])
    kept = keep_largest(values, top, nucleus)
    probabilities[chosen] = values * (kept | ~decided)
    return {row for row, done in zip(rows, decided.view(-1).tolist(), strict=True) if done}


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device).view(-1, 1)
