"""What the attention kernels share: a tile of query vectors walks a range of one row's keys and values.

The softmax is computed online (Milakov & Gimelshein 2018; Dao et al. 2022, FlashAttention), with powers of two. A tile
holds BLOCK_M vectors: those of PACK query heads that share a KV head, for each of BLOCK_M // PACK queries in turn, so
that grouped heads read keys and values once. Knows nothing of how the work of a step is cut into tiles.
"""

import triton
import triton.language as tl

_UNSEEN = tl.constexpr(
    -1e30
)  # finite: a tile may meet unseen keys first, and what it sums of them is scaled by 0 later


@triton.constexpr_function
def padded(dim: int) -> int:
    """The power of two, from the smallest that tensor cores take, that ``dim`` elements are filled up to."""
    return max(16, int(triton.next_power_of_2(dim)))


@triton.jit
def vectors(
    first: tl.tensor, count: tl.tensor, tile: tl.tensor, GROUP: tl.constexpr, PACK: tl.constexpr, BLOCK_M: tl.constexpr
) -> tl.tensor:
    """Of each [BLOCK_M] vector of a tile: its query, counted in its row, its head, and whether there is such a one.

    ``first`` is the tile's first query, of ``count`` in the row; ``tile`` numbers the packs of heads.
    """
    vector = tl.arange(0, BLOCK_M)
    packs: tl.constexpr = triton.cdiv(GROUP, PACK)
    query = first + vector // PACK
    member = tile % packs * PACK + vector % PACK
    there = (vector < BLOCK_M // PACK * PACK) & (query < count) & (member < GROUP)
    return query, tile // packs * GROUP + member, there


@triton.jit
def load_lines(pointer: tl.tensor, lines: tl.tensor, STRIDE: tl.constexpr, DIM: tl.constexpr) -> tl.tensor:
    """The DIM elements of each of ``lines`` [n], STRIDE apart, with zeros up to a power of two."""
    BLOCK: tl.constexpr = padded(DIM)
    column = tl.arange(0, BLOCK)
    place = pointer + lines.to(tl.int64)[:, None] * STRIDE + column[None, :]
    if BLOCK == DIM:
        return tl.load(place)
    return tl.load(place, mask=(column < DIM)[None, :], other=0.0)


@triton.jit
def store_lines(pointer: tl.tensor, lines: tl.tensor, there: tl.tensor, data: tl.tensor, DIM: tl.constexpr) -> None:
    """Write those of ``data`` [n, block of DIM] that are ``there`` to ``lines`` [n]; undoes ``load_lines``."""
    column = tl.arange(0, data.shape[1])
    place = pointer + lines.to(tl.int64)[:, None] * DIM + column[None, :]
    tl.store(place, data.to(pointer.dtype.element_ty), mask=there[:, None] & (column < DIM)[None, :])


@triton.jit
def attend(
    query: tl.tensor,
    position: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    line: tl.tensor,
    begin: tl.tensor,
    common: tl.tensor,
    end: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    KEY_STRIDE: tl.constexpr,
    VALUE_STRIDE: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
) -> tl.tensor:
    """Attention of ``query`` [BLOCK_M, block of KEY_DIM], at ``position`` [BLOCK_M], to positions ``begin … end``, of
    which those before ``common`` are seen by every query, but for WINDOW.

    ``keys`` and ``values`` point at a KV head in slot 0, ``line`` at the row's slots. Scores are ``inner`` · (q · k), or
    ``outer`` · tanh(``inner`` · (q · k)) with SOFTCAP, and stand for powers of two. Returns the mean of values
    [BLOCK_M, block of VALUE_DIM] and the logarithm (base 2) of what the weights sum up to [BLOCK_M], both float32.
    """
    BLOCK_M: tl.constexpr = query.shape[0]
    BLOCK_V: tl.constexpr = padded(VALUE_DIM)
    total = tl.zeros([BLOCK_M], tl.float32)
    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    mean = tl.zeros([BLOCK_M, BLOCK_V], tl.float32)
    # Blocks that every query sees whole come first, and need no mask.
    whole = begin if WINDOW else begin + tl.maximum(tl.minimum(common, end) - begin, 0) // BLOCK_N * BLOCK_N
    for MASK in tl.static_range(2):
        mean, top, total = _walk(
            mean,
            top,
            total,
            query,
            position,
            keys,
            values,
            line,
            whole if MASK else begin,
            end if MASK else whole,
            inner,
            outer,
            KEY_STRIDE,
            VALUE_STRIDE,
            KEY_DIM,
            VALUE_DIM,
            BLOCK_N,
            WINDOW,
            SOFTCAP,
            MASK,
        )
    return mean / total[:, None], top + tl.log2(total)


@triton.jit
def _walk(
    mean: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    query: tl.tensor,
    position: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    line: tl.tensor,
    begin: tl.tensor,
    end: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    KEY_STRIDE: tl.constexpr,
    VALUE_STRIDE: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
    MASK: tl.constexpr,
) -> tl.tensor:
    """Go on with the running ``mean`` (times ``total``), ``top`` score and ``total`` weight over ``begin … end``."""
    for block in range(begin, end, BLOCK_N):
        place = block + tl.arange(0, BLOCK_N)
        # Behind the end the last slot is read again: memory that nothing was written to may hold NaN, and 0 · NaN is NaN.
        slot = tl.load(line + (tl.minimum(place, end - 1) if MASK else place))
        key = load_lines(keys, slot, KEY_STRIDE, KEY_DIM)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * inner
        if SOFTCAP:
            score = outer * (2.0 * tl.sigmoid(2.0 * score) - 1.0)  # tanh
        if MASK:
            seen = (place[None, :] <= position[:, None]) & (place < end)[None, :]
            if WINDOW:
                seen = seen & (place[None, :] > position[:, None] - WINDOW)
            score = tl.where(seen, score, _UNSEEN)
        higher = tl.maximum(top, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        decay = tl.exp2(top - higher)
        total = total * decay + tl.sum(weight, 1)
        value = load_lines(values, slot, VALUE_STRIDE, VALUE_DIM)
        mean = tl.dot(weight.to(value.dtype), value, mean * decay[:, None], input_precision="ieee")
        top = higher
    return mean, top, total
