"""Log-probabilities of the model itself, and exact ranking of logits. Knows tensors, not requests or rows.

Ranking breaks ties by the lower token id, so that what comes first never depends on how a device sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sgframe.messages import Logprobs, ints

_CHUNK_ROWS = 32
"""Rows turned into float32 at once: bounds the workspace to a few times 32 x vocab floats, however long the prompt."""


class Ranked(NamedTuple):
    """Logprobs [n] of one token of each row; ids and logprobs [n, k] of the likeliest, best first."""

    logprobs: Tensor
    top_ids: Tensor
    top_logprobs: Tensor


Rank = Callable[[Tensor, Tensor, int], Ranked]
"""See ``rank``."""


def rank(logits: Tensor, tokens: Tensor, k: int) -> Ranked:
    """Logprobs of ``tokens`` [n] under ``logits`` [n, vocab], each with the ``k`` likeliest tokens. The log-softmax is taken
    in float32."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top_ids = likeliest(logprobs, k)
    return Ranked(logprobs.gather(1, tokens.view(-1, 1)).view(-1), top_ids, logprobs.gather(1, top_ids))


def prompt_logprobs(logits: Tensor, targets: Tensor, k: int, rank: Rank = rank) -> list[Logprobs]:
    """Logprobs of ``targets`` [n] under raw ``logits`` [n, vocab], each with the ``k`` likeliest tokens."""
    return token_logprobs(logits, targets, [k] * len(targets), rank)


def token_logprobs(logits: Tensor, tokens: Tensor, counts: Sequence[int], rank: Rank = rank) -> list[Logprobs]:
    """Logprobs of ``tokens`` [n] under raw ``logits`` [n, vocab]; entry i holds the ``counts[i]`` likeliest tokens.

    A token outside the likeliest still has its own logprob.
    """
    entries: list[Logprobs] = []
    for start in range(0, len(counts), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        ranked = (each.tolist() for each in rank(logits[rows], tokens[rows], max(counts[rows])))
        entries += [
            Logprobs(token, logprob, ints(ids[:count]), values[:count])
            for token, logprob, ids, values, count in zip(tokens[rows].tolist(), *ranked, counts[rows], strict=True)
        ]
    return entries


def likeliest(values: Tensor, k: int) -> Tensor:
    """Ids [n, k] of the ``k`` largest of each row of ``values`` [n, vocab], best first, ties by the lower id."""
    if k == 0:
        return torch.empty(len(values), 0, dtype=torch.int64, device=values.device)
    if k == 1:
        return values.max(dim=-1, keepdim=True).indices  # the first of equal maxima, without the work below
    counts = torch.full((len(values),), k, device=values.device)
    mask = keep_largest(values, values.topk(k).values, counts)
    ids = mask.nonzero()[:, 1].view(-1, k)  # ascending in each row, which a stable sort keeps among equals
    order = values.gather(1, ids).sort(dim=-1, descending=True, stable=True).indices
    return ids.gather(1, order)


def keep_largest(values: Tensor, top: Tensor, counts: Tensor) -> Tensor:
    """Mask [n, vocab] of exactly the ``counts[i]`` largest of row i of ``values`` [n, vocab], ties by the lower id.

    ``top`` [n, k] are each row's k largest values in descending order, with k >= ``counts[i]`` >= 1.
    """
    threshold = top.gather(1, counts.view(-1, 1) - 1)
    above = (top > threshold).sum(dim=-1, keepdim=True)
    ties = values == threshold
    return (values > threshold) | (ties & (ties.cumsum(dim=-1, dtype=torch.int32) <= counts.view(-1, 1) - above))
