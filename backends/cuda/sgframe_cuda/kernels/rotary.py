"""From a projection to queries and stored keys and values: head norms, rotary embedding (Su et al. 2021), KV write.

A program takes up to BLOCK heads of one token, all queries, all keys or all values. The pairs of a head are its two
halves, so it is loaded as two tiles [BLOCK, HALF_BLOCK].
"""

import triton
import triton.language as tl

from sgframe_cuda.kernels.norm import normalised


@triton.jit
def _tile(
    block: tl.tensor, COUNT: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr, HALF_BLOCK: tl.constexpr
) -> tl.tensor:
    """Where the first halves of the heads of ``block`` lie, COUNT heads side by side, and which elements there are."""
    heads = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.arange(0, HALF_BLOCK)[None, :]
    return heads * (2 * HALF) + columns, (heads < COUNT) & (columns < HALF)


@triton.jit
def _turn(
    source: tl.tensor,
    target: tl.tensor,
    weight: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    places: tl.tensor,
    inside: tl.tensor,
    eps: tl.tensor,
    NORMED: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
) -> None:
    DTYPE: tl.constexpr = target.dtype.element_ty
    columns = tl.arange(0, HALF_BLOCK)[None, :]
    there = columns < HALF
    first = tl.load(source + places, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + places + HALF, mask=inside, other=0.0).to(tl.float32)
    if NORMED:
        squares = tl.sum(first * first + second * second, axis=1)[:, None]
        low = tl.load(weight + columns, mask=there, other=0.0)
        high = tl.load(weight + HALF + columns, mask=there, other=0.0)
        first = normalised(first, squares, low, eps, 2 * HALF, DTYPE).to(tl.float32)
        second = normalised(second, squares, high, eps, 2 * HALF, DTYPE).to(tl.float32)
    cos = tl.load(cosines + columns, mask=there, other=0.0)
    sin = tl.load(sines + columns, mask=there, other=0.0)
    tl.store(target + places, (first * cos - second * sin).to(DTYPE), mask=inside)
    tl.store(target + places + HALF, (second * cos + first * sin).to(DTYPE), mask=inside)


@triton.jit
def _copy(source: tl.tensor, target: tl.tensor, places: tl.tensor, inside: tl.tensor, HALF: tl.constexpr) -> None:
    tl.store(target + places, tl.load(source + places, mask=inside), mask=inside)
    tl.store(target + places + HALF, tl.load(source + places + HALF, mask=inside), mask=inside)


@triton.jit
def rotate_and_store(
    qkv: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    query_weight: tl.tensor,
    key_weight: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    slots: tl.tensor,
    qkv_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    rotary_stride: tl.tensor,
    eps: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    NORMED: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
) -> None:
    """From ``qkv`` [T, (HEADS + 2 · KV_HEADS) · 2 · HALF] to ``query`` [T, HEADS, 2 · HALF] and ``slots`` [T] of the KV.

    Strides are those from token to token and from slot to slot. The weights [2 · HALF] are read only if NORMED.
    """
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    query_blocks: tl.constexpr = (HEADS + BLOCK - 1) // BLOCK
    kv_blocks: tl.constexpr = (KV_HEADS + BLOCK - 1) // BLOCK
    source = qkv + token * qkv_stride
    cosines += token * rotary_stride
    sines += token * rotary_stride
    if block < query_blocks:
        places, inside = _tile(block, HEADS, HALF, BLOCK, HALF_BLOCK)
        target = query + token * (HEADS * 2 * HALF)
        _turn(source, target, query_weight, cosines, sines, places, inside, eps, NORMED, HALF, HALF_BLOCK)
    else:
        slot = tl.load(slots + token)
        block -= query_blocks
        source += HEADS * 2 * HALF
        if block < kv_blocks:
            places, inside = _tile(block, KV_HEADS, HALF, BLOCK, HALF_BLOCK)
            target = keys + slot * key_stride
            _turn(source, target, key_weight, cosines, sines, places, inside, eps, NORMED, HALF, HALF_BLOCK)
        else:
            places, inside = _tile(block - kv_blocks, KV_HEADS, HALF, BLOCK, HALF_BLOCK)
            _copy(source + KV_HEADS * 2 * HALF, values + slot * value_stride, places, inside, HALF)
