"""Attention by other tiles than those of the table: what to put there for this device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from device.clock import Clock, Limits
from device.kernel_ops import KernelOps
from device.kernel_speed import Bench
from device.rows import Report, Row
from device.target import Target
from sgframe_cuda.attention import TritonAttention
from sgframe_cuda.tiles import Tile, Tiles, choose_tiles

EXTEND = (
    Tile(128, 64, 8, 3),
    Tile(128, 64, 8, 7),
    Tile(128, 128, 8, 3),
    Tile(128, 32, 8, 5),
    Tile(64, 64, 4, 3),
    Tile(64, 64, 4, 5),
    Tile(64, 32, 4, 5),
)
DECODE = (
    Tile(16, 64, 4, 3),
    Tile(16, 64, 2, 5),
    Tile(16, 32, 4, 5),
    Tile(16, 32, 2, 5),
    Tile(16, 32, 2, 7),
    Tile(16, 128, 4, 3),
    Tile(16, 128, 8, 5),
)
"""Of 16 vectors, since groups of up to 16 heads take no more, whatever the table allows."""


def run(target: Target, report: Report) -> None:
    """Time decoding and prefilling by each; the best of both come last."""
    device, sizes = torch.device(target.device), target.sizes
    heads, limits, clock = sizes.model.heads, Limits.load(target.limits_file), Clock(device, sizes.seconds)
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else (9, 0)
    table = choose_tiles(capability, torch.bfloat16.itemsize, max(heads.key_dim, heads.value_dim))

    def bench(tiles: Tiles) -> Bench:
        ops = KernelOps(device, TritonAttention(device, tiles))
        return Bench(ops, sizes, limits, torch.bfloat16, clock, aims=False)

    decode = sweep(
        "decode", (table.decode, *DECODE), lambda tile: bench(replace(table, decode=tile)).decode_row(""), report
    )
    extend = sweep(
        "prefill", (table.extend, *EXTEND), lambda tile: bench(replace(table, extend=tile)).prefill_row(""), report
    )
    for row in filter(None, (decode, extend)):
        report(row)


def sweep(what: str, tiles: Sequence[Tile], measure: Callable[[Tile], Row], report: Report) -> Row | None:
    """Report a row for each of ``tiles``, that of the table first; give the best once more. Where one is too large for the
    device, its row says so."""
    found: dict[Tile, Row] = {}
    for tile in tiles:
        name = f"{what}, {tile.vectors} × {tile.keys}, {tile.warps} warps, {tile.stages} stages"
        try:
            found[tile] = replace(measure(tile), what=name)
        except Exception as error:  # of this tile alone, if the device still answers
            report(Row(name, note=f"{type(error).__name__}: {error}".splitlines()[0]))
        else:
            report(found[tile])
    if not found:
        return None
    best = max(found.values(), key=lambda row: row.value or 0.0)
    return replace(best, what=f"best: {best.what}", note=f"{best.note}{_gain(best, found.get(tiles[0]))}")


def _gain(best: Row, table: Row | None) -> str:
    return f", {best.value / table.value:.2f} times that of the table" if best.value and table and table.value else ""
