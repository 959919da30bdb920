"""Token trees: how a step attends to each branch as if it were a row of its own, and the scores that a tree asks for.

Knows the flat inputs of a step and what of it belongs to trees (see ``rows``). Attention knows nothing of trees: it stays
causal, over lines of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
import torch
from torch import Tensor

from sgframe.messages import Ints, TreeScores, ints
from sgframe_torch.models import Model
from sgframe_torch.needs import PROMPT_SLICE
from sgframe_torch.ops import DeviceOps
from sgframe_torch.rows import StepInputs, TreePart


@dataclass(frozen=True, slots=True)
class _Chain:
    """Nodes that follow each other, from the flat token ``flat`` on. ``path``: the last one's ancestors and itself."""

    part: TreePart
    flat: int
    path: list[int]

    @property
    def kv_length(self) -> int:
        return self.part.prompt_len + len(self.path)


def branch(inputs: StepInputs, parts: Sequence[TreePart], ops: DeviceOps) -> StepInputs:
    """``inputs`` in which each node sees the prompt, its ancestors and itself, at the position that its depth gives it.

    Tokens and slots stay as they are. What of a tree lies in one line with its prompt attends as any row does. The other
    nodes are cut into chains, each a row of its own in a page table made for this step. A layer writes the KV of all
    tokens before any attends, so that a chain may read another's. The idea is that of tree attention (Miao et al. 2024,
    SpecInfer), with lines of slots in place of a mask.
    """
    chains = [each for part in parts for each in _chains(part)]
    if not chains:
        return inputs
    begins, rows, lengths = _segments(inputs, chains)
    starts = np.append(begins, len(inputs.tokens)).astype(np.int32)
    positions = np.arange(len(inputs.tokens)) + np.repeat(lengths - starts[1:], np.diff(starts))
    positions_, rows_, starts_, lengths_ = ops.upload_all([positions, rows, starts, lengths])
    return replace(
        inputs,
        positions=positions_,
        rows=rows_,
        query_starts=starts_,
        kv_lengths=lengths_,
        page_table=_page_table(inputs, chains, int(lengths.max()), ops),
        host_starts=starts,
        host_lengths=lengths,
        paged=False,
    )


def _chains(part: TreePart) -> list[_Chain]:
    """The nodes of ``part`` that do not lie in one line with the prompt."""
    parents = part.tree.parents
    end = part.start + part.count
    trunk = next((node for node, parent in enumerate(parents) if parent != node - 1), len(parents))
    begin = max(part.start, trunk)
    heads = [node for node in range(begin, end) if node == begin or parents[node] != node - 1]
    return [
        _Chain(part, part.flat + head - part.start, _path(parents, after - 1))
        for head, after in pairwise([*heads, end])
    ]


def _path(parents: Ints, node: int) -> list[int]:
    """``node`` and its ancestors, from the top."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def _segments(inputs: StepInputs, chains: Sequence[_Chain]) -> np.ndarray:
    """int32 [3, segments]: the first flat token of each, its row in the step's page table, and its length in KV. A row
    keeps what comes before its first chain."""
    starts, lengths = inputs.host_starts.tolist(), inputs.host_lengths.tolist()
    ends = starts[1:]
    for each in reversed(chains):
        ends[each.part.order] = each.flat
    segments = [
        (start, row, length - (after - end))
        for row, (start, end, after, length) in enumerate(zip(starts, ends, starts[1:], lengths, strict=False))
        if end > start
    ]
    segments += [(each.flat, len(lengths) + row, each.kv_length) for row, each in enumerate(chains)]
    return np.array(sorted(segments), dtype=np.int32).T.copy()


def _page_table(inputs: StepInputs, chains: Sequence[_Chain], width: int, ops: DeviceOps) -> Tensor:
    """int32 [rows of the step + chains, ``width``]: a chain's row lists the slots of the prompt, then of its path."""
    table = inputs.page_table
    entries = [
        (line, each.part.row, each.part.prompt_len + depth, each.part.prompt_len + node)
        for line, each in enumerate(chains)
        for depth, node in enumerate(each.path)
    ]
    rows = np.array([each.part.row for each in chains])
    chosen, (line, row, position, index) = ops.upload_all([rows, np.array(entries).T.copy()])
    lines = table[chosen, :width]
    lines[line, position] = table[row, index]
    return torch.cat((table[inputs.rows, :width], lines))


def scores(model: Model, hidden: Tensor, parts: Sequence[TreePart]) -> list[TreeScores]:
    """What is asked for right after the tokens of ``parts``, whose last hidden states are in ``hidden`` [T, hidden].

    Each is the float32 log-softmax of the model's logits; NaN where those are not finite.
    """
    asked = [
        [index for index, place in enumerate(part.tree.places) if part.start <= place < part.start + part.count]
        for part in parts
    ]
    pairs = [
        (part.flat + part.tree.places[index] - part.start, part.tree.tokens[index])
        for part, indices in zip(parts, asked, strict=True)
        for index in indices
    ]
    found = iter(_logprobs(model, hidden, pairs))
    return [
        TreeScores(part.row, ints(indices), list(islice(found, len(indices))))
        for part, indices in zip(parts, asked, strict=True)
        if indices
    ]


def _logprobs(model: Model, hidden: Tensor, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """For each (flat token, token): the logprob of the second after the first, whose logits are computed once."""
    if not pairs:
        return []
    flat, tokens = torch.tensor(pairs, device=hidden.device).T
    places, which = flat.unique(return_inverse=True)
    found = torch.empty(len(pairs), device=hidden.device)
    for start in range(0, len(places), PROMPT_SLICE):
        logits = model.logits(hidden[places[start : start + PROMPT_SLICE]])
        here = (which >= start) & (which < start + PROMPT_SLICE)
        found[here] = torch.log_softmax(logits.float(), dim=-1)[which[here] - start, tokens[here]]
    return found.tolist()
