"""Attention of rows that compute many tokens: each block of queries walks all that it sees.

A task is a block of one row's queries. The host knows which there are, and plans them.
"""

import triton
import triton.language as tl

from sgframe_cuda.kernels.tile import attend, load_lines, store_lines, vectors


# Not a kernel for each alignment of what is read one by one.
@triton.jit(
    do_not_specialize=["table_stride"],
    do_not_specialize_on_alignment=["page_table", "rows", "starts", "lengths", "tasks"],
)
def extend(
    output: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    page_table: tl.tensor,
    rows: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    tasks: tl.tensor,
    table_stride: tl.tensor,
    inner: tl.tensor,
    outer: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PACK: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr,
) -> None:
    """One program for each task ([n, 2]: the row's number in the step, the first query in the row) and pack of heads.

    ``output`` and ``query`` are [T, heads, dim], ``keys`` and ``values`` [slots, KV_HEADS, dim], all without gaps; the
    others are as in StepInputs. For ``inner`` and ``outer`` see ``tile.attend``.
    """
    row = tl.load(tasks + 2 * tl.program_id(0))
    first = tl.load(tasks + 2 * tl.program_id(0) + 1)
    tile = tl.program_id(1)
    start = tl.load(starts + row)
    count = tl.load(starts + row + 1) - start
    length = tl.load(lengths + row)
    index, head, there = vectors(first, count, tile, GROUP, PACK, BLOCK_M)
    vector = (start + index) * (KV_HEADS * GROUP) + head
    position = length - count + first
    kv_head = tile // triton.cdiv(GROUP, PACK)
    mean, _ = attend(
        load_lines(query, tl.where(there, vector, 0), KEY_DIM, KEY_DIM),
        length - count + index,
        keys + kv_head * KEY_DIM,
        values + kv_head * VALUE_DIM,
        page_table + tl.load(rows + row).to(tl.int64) * table_stride,
        tl.maximum(position - WINDOW + 1, 0) if WINDOW else 0,
        position + 1,
        tl.minimum(position + BLOCK_M // PACK, length),
        inner,
        outer,
        KV_HEADS * KEY_DIM,
        KV_HEADS * VALUE_DIM,
        KEY_DIM,
        VALUE_DIM,
        BLOCK_N,
        WINDOW,
        SOFTCAP,
    )
    store_lines(output, vector, there, mean, VALUE_DIM)
