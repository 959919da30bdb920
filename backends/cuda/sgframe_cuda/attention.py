"""Paged attention by Triton kernels: cuts a step into tasks, and launches the kernels of each layer.

Agrees with ``sgframe_torch.attention.paged_attention``, which defines it. Nothing here waits for the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import e, log2
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from sgframe_cuda.kernels.decode import COLUMNS, decode, merge, plan
from sgframe_cuda.kernels.extend import extend
from sgframe_cuda.tiles import Tile, Tiles, choose_tiles
from sgframe_torch.kv import LayerKV
from sgframe_torch.rows import Ints32, StepInputs

LEAST_KEYS = 128
"""Fewest keys worth a program of their own."""
PROGRAMS = 8
"""Programs a processor that keys are split for: more than it runs at once, so that all processors end together."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a step goes where: the rows ``few`` [n] to ``decode``, the ``blocks`` [m, 2] of the others to ``extend``.

    Both are int32 on the device. No row of ``few`` has more than ``tokens`` tokens. ``plans`` are how their keys are
    split, by what it depends on.
    """

    few: Tensor
    tokens: int
    blocks: Tensor
    plans: dict[tuple[int, int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layer:
    """One call: its tensors, the factors of its scores (see ``tile.attend``), and what its kernels are compiled for."""

    output: Tensor
    query: Tensor
    kv: LayerKV
    step: StepInputs
    inner: float
    outer: float
    constants: dict[str, Any]

    def packs(self, pack: int) -> int:
        """How many packs of up to ``pack`` heads there are, over all KV heads."""
        return int(self.constants["KV_HEADS"] * triton.cdiv(self.constants["GROUP"], pack))


class TritonAttention:
    """Plans once a step, computes once a layer.

    Rows of few tokens, most of them one, have their keys split among programs: a single program would walk a long row
    alone while the device idles. The other rows give enough programs by their queries.

    A step of one token a row starts the same kernels over the same grids as any other of so many rows, and all else is
    read on the device: a graph that records it, from ``begin`` on, holds for every such step. Scratch memory is that of
    torch's allocator, and so in a graph the graph's own.

    ``tiles`` are taken in place of those that suit the device.
    """

    def __init__(self, device: torch.device, tiles: Tiles | None = None) -> None:
        self._tiles = tiles
        self._capability, self._processors = _describe(device)
        self._cuts: dict[tuple[int, int], Cut] = {}

    def begin(self, step: StepInputs) -> None:
        """Forget the plans of the step before."""
        self._cuts = {}

    def __call__(
        self, query: Tensor, kv: LayerKV, step: StepInputs, scale: float, window: int = 0, softcap: float = 0.0
    ) -> Tensor:
        """See ``sgframe_torch.attention.paged_attention``. Raises ModelError for heads of too many dimensions."""
        (tokens, heads, key_dim), (kv_heads, value_dim) = query.shape, kv.values.shape[1:]
        group = heads // kv_heads
        tiles = self._tiles or choose_tiles(self._capability, query.element_size(), max(key_dim, value_dim))
        layer = Layer(
            output=query.new_empty(tokens, heads, value_dim),
            query=query.contiguous(),
            kv=kv,
            step=step,
            inner=scale / softcap if softcap else scale * log2(e),
            outer=softcap * log2(e),
            constants={
                "KV_HEADS": kv_heads,
                "GROUP": group,
                "KEY_DIM": key_dim,
                "VALUE_DIM": value_dim,
                "WINDOW": window,
                "SOFTCAP": softcap > 0,
            },
        )
        few = replace(tiles.decode, vectors=max(16, min(triton.next_power_of_2(group), tiles.decode.vectors)))
        cut = self._cut(step, few.vectors // min(group, few.vectors), max(tiles.extend.vectors // group, 1))
        if len(cut.few):
            self._decode(layer, cut, few)
        if len(cut.blocks):
            _extend(layer, cut, tiles.extend)
        return layer.output

    def _cut(self, step: StepInputs, most: int, block: int) -> Cut:
        if (most, block) not in self._cuts:
            self._cuts[most, block] = make_cut(step, most, block)
        return self._cuts[most, block]

    def _decode(self, layer: Layer, cut: Cut, tile: Tile) -> None:
        pack = min(layer.constants["GROUP"], tile.vectors)
        packs, width = layer.packs(pack), cut.tokens * pack
        target = triton.cdiv(self._processors * PROGRAMS, packs)
        tasks, parts = _plan(layer.step, cut, target, tile.keys, layer.constants["WINDOW"])
        weights = layer.output.new_empty((len(tasks), packs, width), dtype=torch.float32)
        means = weights.new_empty(*weights.shape, layer.output.shape[2])
        table = layer.step.page_table
        decode[packs, len(tasks)](
            *(means, weights, layer.query, *layer.kv, table, tasks, table.stride(0), width, layer.inner, layer.outer),
            **layer.constants,
            **_options(tile, pack),
        )
        shape = {name: layer.constants[name] for name in ("KV_HEADS", "GROUP", "VALUE_DIM")}
        merge[len(cut.few), packs * width](layer.output, means, weights, tasks, parts, width, PACK=pack, **shape)


def cut_rows(step: StepInputs, most: int, block: int) -> tuple[Ints32, Ints32]:
    """The rows of 1 to ``most`` tokens [n]; blocks of ``block`` tokens of the others [m, 2]: the row, the block's first
    token in it. Blocks that see the most keys come first, so that none of them starts when the others end."""
    counts = np.diff(step.host_starts)
    few, many = np.flatnonzero((counts > 0) & (counts <= most)), np.flatnonzero(counts > most)
    blocks = -(-counts[many] // block)
    row = np.repeat(many, blocks)
    first = (np.arange(len(row)) - np.repeat(np.cumsum(blocks) - blocks, blocks)) * block
    order = np.argsort(-(step.host_lengths[row] - counts[row] + first), kind="stable")
    return few.astype(np.int32), np.stack([row, first], axis=1)[order].astype(np.int32)


def make_cut(step: StepInputs, most: int, block: int) -> Cut:
    """``cut_rows`` on the device. There is nothing to upload, which a graph could not record, where all rows are few."""
    few, blocks = cut_rows(step, most, block)
    tokens, device = int(np.diff(step.host_starts)[few].max(initial=0)), step.rows.device
    if len(few) == len(step.host_lengths):
        every = torch.arange(len(few), dtype=torch.int32, device=device)
        return Cut(every, tokens, every.new_empty(0, 2))
    indices = torch.from_numpy(np.concatenate([few, blocks.ravel()]))
    if device.type == "cuda":
        indices = indices.pin_memory().to(device, non_blocking=True)
    return Cut(indices[: len(few)], tokens, indices[len(few) :].view(-1, 2))


def _plan(step: StepInputs, cut: Cut, target: int, unit: int, window: int) -> tuple[Tensor, Tensor]:
    """The tasks of ``decode`` and the first of each row; see ``kernels.decode.plan``."""
    if (target, unit, window) not in cut.plans:
        rows = len(cut.few)
        tasks, parts = cut.few.new_empty(rows + target, COLUMNS.value), cut.few.new_empty(rows + 1)
        indices = cut.few, step.rows, step.query_starts, step.kv_lengths
        plan[rows,](tasks, parts, *indices, rows, len(tasks), target, LEAST=LEAST_KEYS, UNIT=unit, WINDOW=window)
        cut.plans[target, unit, window] = tasks, parts
    return cut.plans[target, unit, window]


def _extend(layer: Layer, cut: Cut, tile: Tile) -> None:
    step, pack = layer.step, min(layer.constants["GROUP"], tile.vectors)
    table, indices = step.page_table, (step.rows, step.query_starts, step.kv_lengths, cut.blocks)
    extend[len(cut.blocks), layer.packs(pack)](
        *(layer.output, layer.query, *layer.kv, table, *indices, table.stride(0), layer.inner, layer.outer),
        **layer.constants,
        **_options(tile, pack),
    )


def _options(tile: Tile, pack: int) -> dict[str, int]:
    sizes = {"PACK": pack, "BLOCK_M": tile.vectors, "BLOCK_N": tile.keys}
    return sizes | {"num_warps": tile.warps, "num_stages": tile.stages}


def _describe(device: torch.device) -> tuple[tuple[int, int], int]:
    """The compute capability and how many processors there are; a machine without GPU interprets, as if it had two."""
    if device.type != "cuda":
        return (9, 0), 2
    properties = torch.cuda.get_device_properties(device)
    return (properties.major, properties.minor), properties.multi_processor_count
