"""How large a piece of attention one program takes, by GPU, element and head dimension.

The tables follow from what the compiler makes of them: no registers are spilled, and shared memory holds what is read
ahead. Nobody has measured them against others yet. Knows no kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgframe.errors import ModelError


@dataclass(frozen=True, slots=True)
class Tile:
    """One program: so many query ``vectors`` (queries × heads that share a KV head) walk their keys, ``keys`` at a time.

    ``vectors`` and ``keys`` are powers of two from 16 on. ``stages`` are those of the loop over keys in the compiler's
    pipeline.
    """

    vectors: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """``extend`` for rows of many tokens; ``decode`` for rows of few: of its vectors are only taken as many as a group of
    heads needs."""

    extend: Tile
    decode: Tile


# By the head dimension up to which they serve. Keys are found through their slots, and so each is read half as many stages
# ahead as there are: five let two blocks be on their way while one is computed.
_WIDE = {  # compute capability 9 and 10: warpgroups of 64 vectors, 227 KiB of shared memory
    64: Tiles(Tile(128, 128, 8, 5), Tile(32, 128, 4, 5)),
    128: Tiles(Tile(128, 64, 8, 5), Tile(32, 64, 4, 5)),
    256: Tiles(Tile(128, 32, 8, 5), Tile(32, 32, 4, 5)),
    512: Tiles(Tile(64, 16, 8, 5), Tile(32, 16, 4, 5)),
}
_NARROW = {  # the others, of which some have 99 KiB
    64: Tiles(Tile(128, 64, 8, 5), Tile(32, 128, 4, 5)),
    128: Tiles(Tile(128, 64, 8, 5), Tile(32, 64, 4, 5)),
    256: Tiles(Tile(64, 32, 8, 3), Tile(32, 32, 4, 5)),
    512: Tiles(Tile(32, 16, 8, 3), Tile(16, 16, 4, 5)),
}
_FLOAT32 = {  # without tensor cores, which would round: meant for comparing, not for speed
    64: Tiles(Tile(32, 32, 4, 2), Tile(16, 64, 4, 3)),
    128: Tiles(Tile(32, 16, 8, 2), Tile(16, 16, 4, 3)),
    256: Tiles(Tile(32, 16, 8, 2), Tile(16, 16, 4, 3)),
    512: Tiles(Tile(16, 16, 8, 2), Tile(16, 16, 4, 2)),
}


def choose_tiles(capability: tuple[int, int], element_bytes: int, dim: int) -> Tiles:
    """What suits heads of ``dim``, the larger of key and value dimension. Raises ModelError beyond 512."""
    table = _FLOAT32 if element_bytes == 4 else _WIDE if capability[0] in (9, 10) else _NARROW
    for limit, tiles in table.items():
        if dim <= limit:
            return tiles
    raise ModelError(
        f"the attention kernels take heads of up to {limit} dimensions, this model's have {dim}; choose torch's attention"
    )
