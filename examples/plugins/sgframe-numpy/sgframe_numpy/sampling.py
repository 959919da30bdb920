"""From the logits of one row to its next token, and to the logprobs that were asked for. Knows no batch and no model.

The order is: repetition penalty, frequency and presence penalties, logit bias, grammar mask, temperature, top-k, top-p,
min-p, draw. Among equals the lower id comes first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sgframe.messages import Logprobs, ints
from sgframe.sampling import TokenSampling
from sgframe_numpy.checkpoint import Floats
from sgframe_numpy.rows import Row

INVALID = -1
"""The token of a row whose logits are not finite, or whose mask leaves nothing to choose."""


def choose(logits: Floats, row: Row, allowed: npt.NDArray[np.bool_] | None) -> int:
    """The next token of ``row`` under ``logits`` [vocab], or INVALID."""
    if not np.isfinite(logits.max()):  # NaN wins a maximum
        return INVALID
    work = _penalised(logits.astype(np.float64), row)
    if allowed is not None:
        work[~allowed] = -np.inf
    best = int(work.argmax())
    if not np.isfinite(work[best]):
        return INVALID
    return best if row.sampling.temperature == 0 else _draw(work, row.sampling, len(row.tokens))


def _penalised(work: npt.NDArray[np.float64], row: Row) -> npt.NDArray[np.float64]:
    sampling = row.sampling
    if sampling.repetition_penalty != 1:
        seen = np.unique(row.tokens)
        work[seen] *= np.where(work[seen] > 0, 1 / sampling.repetition_penalty, sampling.repetition_penalty)
    if sampling.frequency_penalty or sampling.presence_penalty:
        written, counts = np.unique(row.tokens[row.prompt_len :], return_counts=True)
        work[written] -= sampling.frequency_penalty * counts + sampling.presence_penalty
    for token, bias in sampling.logit_bias.items():
        work[token] += bias
    return work


def _draw(work: npt.NDArray[np.float64], sampling: TokenSampling, position: int) -> int:
    """A token by inverting the cumulative distribution of those that the filters leave, the likeliest first."""
    order = np.argsort(-work, kind="stable")[: sampling.top_k or None]
    weights = np.exp((work[order] - work[order[0]]) / sampling.temperature)
    before = np.cumsum(weights) - weights
    weights[before >= sampling.top_p * weights.sum()] = 0  # of the nucleus are those before which it is not complete
    weights[weights < sampling.min_p] = 0  # the likeliest weighs 1
    cumulative = np.cumsum(weights)
    target = uniform(sampling.seed, position) * cumulative[-1]
    return int(order[np.searchsorted(cumulative, target, side="right")])


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that is a function of ``seed`` and ``position`` alone: no company of a row changes its draws."""
    return float(np.random.default_rng([seed % 2**64, position]).random())


def log_softmax(logits: Floats) -> Floats:
    """NaN throughout where the logits are not finite."""
    shifted: Floats = logits - logits.max()
    shifted -= np.log(np.exp(shifted).sum())
    return shifted


def logprobs_of(logits: Floats, token: int, top: int) -> Logprobs:
    """The logprob of ``token`` under the model's own ``logits`` [vocab], and the ``top`` likeliest."""
    logprobs = log_softmax(logits)
    likeliest = np.argsort(-logprobs, kind="stable")[:top]
    return Logprobs(token, float(logprobs[token]), ints(likeliest.tolist()), logprobs[likeliest].tolist())
