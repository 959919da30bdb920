"""From shaped logits to tokens in plain torch: the definition that device kernels are tested against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sgframe_torch.logprobs import keep_largest

INVALID = -1
"""The token of a row whose logits are not finite, or whose mask leaves nothing to choose."""

DrawTable = npt.NDArray[np.float64]
"""How to choose a token for each of n rows: [n, 5] on the host, with the columns of Draws. Temperature 0 takes the largest
logit, the lower id among equals."""

_FIRST_CANDIDATES = 64
_GROWTH = 16


class Draws(NamedTuple):
    """How to draw a token for each of n rows: tensors [n] on the device.

    ``temperature`` (float32, > 0), ``top_k`` (int32, 0 for all), ``top_p`` and ``min_p`` (float32), and ``uniform``, the
    number in [0, 1) that decides (float64).
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    uniform: Tensor


def columns(table: DrawTable) -> list[np.ndarray]:
    """What Draws are made of, on the host."""
    dtypes = (np.float32, np.int32, np.float32, np.float32, np.float64)
    return [column.astype(dtype) for column, dtype in zip(table.T, dtypes, strict=True)]


def draw(logits: Tensor, draws: Draws) -> Tensor:
    """int64 [n]: a token for each row of ``logits`` [n, vocab] float32, by inverting the cumulative distribution.

    The order is temperature, top-k, top-p, min-p. What comes of a row that is not finite (NaN, +inf, nothing but -inf) is
    not read, but must be a token.
    """
    largest = logits.amax(dim=-1, keepdim=True)
    temperatures = draws.temperature.unsqueeze(1)
    probabilities = torch.softmax((logits - largest) / temperatures, dim=-1)  # at most 0: cannot overflow
    _filter(probabilities, draws)
    cumulative = probabilities.double().cumsum(dim=-1)
    targets = draws.uniform.unsqueeze(1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, targets, right=True).view(-1).clamp_(max=logits.shape[1] - 1)


def _filter(probabilities: Tensor, draws: Draws) -> None:
    """Set to 0 what top-k, top-p and min-p leave out of ``probabilities`` [n, vocab]."""
    vocab_size = probabilities.shape[1]
    top_k, top_p = draws.top_k.tolist(), draws.top_p.tolist()
    pending = [i for i, (k, p) in enumerate(zip(top_k, top_p, strict=True)) if 0 < k < vocab_size or p < 1]
    size = _FIRST_CANDIDATES
    while pending:
        size = min(size, vocab_size)
        ready = [i for i in pending if top_k[i] <= size or size == vocab_size]
        done = _keep_candidates(probabilities, ready, draws, size) if ready else set()
        pending = [i for i in pending if i not in done]
        size *= _GROWTH
    floor = probabilities.amax(dim=-1, keepdim=True) * draws.min_p.unsqueeze(1)
    probabilities.masked_fill_(probabilities < floor, 0)


def _keep_candidates(probabilities: Tensor, rows: Sequence[int], draws: Draws, size: int) -> set[int]:
    """Apply top-k and top-p to ``rows`` of ``probabilities`` by looking at their ``size`` likeliest tokens only.

    Returns the rows that this decides; the nucleus of the others is larger, and they are left as they were. Which rows
    stand together changes nothing.
    """
    chosen = torch.tensor(rows, device=probabilities.device)
    values = probabilities[chosen]
    top_k, top_p = draws.top_k[chosen].long().unsqueeze(1), draws.top_p[chosen].double().unsqueeze(1)
    top = values.topk(size).values
    cumulative = top.cumsum(dim=-1, dtype=torch.float64)
    limits = torch.where(top_k > 0, top_k.clamp(max=size), size)
    totals = torch.where(top_k > 0, cumulative.gather(1, limits - 1), 1.0)
    wanted = top_p * totals
    nucleus = 1 + (cumulative[:, :-1] < wanted).sum(dim=-1)  # a token belongs if those before it fall short of top-p
    decided = (cumulative[:, -1:] >= wanted) | (size == values.shape[1])
    kept = keep_largest(values, top, nucleus)
    probabilities[chosen] = values * (kept | ~decided)
    return {row for row, done in zip(rows, decided.view(-1).tolist(), strict=True) if done}


def unpack_mask(words: Tensor, vocab_size: int) -> Tensor:
    """Booleans [rows, vocab] from packed ``words`` [rows, ceil(vocab / 32)] int32."""
    bits = torch.arange(32, dtype=torch.int32, device=words.device)
    return (words.unsqueeze(-1) >> bits & 1).bool().flatten(1)[:, :vocab_size]
