"""What the ranks add to a divided layer: the sum, the gathering, the masking of tokens that are another rank's. With one
rank that is nothing, and the layer itself comes back."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sgframe_torch.parallel.group import Group

Layer = Callable[[Tensor], Tensor]


def row_parallel(layer: Layer, group: Group) -> Layer:
    """``layer`` takes this rank's part of the inputs and gives a partial sum; the result gives the whole one."""
    if group.size == 1:
        return layer
    return lambda x: group.all_reduce(layer(x))


def gathered(layer: Layer, group: Group, width: int) -> Layer:
    """``layer`` gives this rank's part […, share] of ``width`` outputs, with padding behind the last; the result gives all,
    […, width]."""
    if group.size == 1:
        return layer

    def gather(x: Tensor) -> Tensor:
        own = layer(x)
        return group.all_gather(own.flatten(0, -2))[:, :width].contiguous().view(*own.shape[:-1], width)

    return gather


def vocabulary_parallel(lookup: Layer, share: int, group: Group) -> Layer:
    """``lookup`` gives the vectors of this rank's ``share`` tokens, numbered from 0; the result those of any tokens."""
    if group.size == 1:
        return lookup
    first = group.rank * share

    def embed(tokens: Tensor) -> Tensor:
        own = tokens - first
        foreign = (own < 0) | (own >= share)
        vectors = lookup(own.masked_fill(foreign, 0))
        return group.all_reduce(vectors.masked_fill_(foreign.unsqueeze(-1), 0))

    return embed
