"""Attention of rows that compute few tokens, most of them one: each row's keys are split among programs, whose partial
results are merged (flash-decoding: Dao et al. 2023).

What a program does is planned on the device, since a recorded graph is played with other lengths than it was recorded
with. ``plan`` cuts the keys of all rows into parts of much the same size, so that one long row keeps no one waiting.
"""

import triton
import triton.language as tl

from sgframe_cuda.kernels.tile import attend, load_lines, padded, store_lines, vectors

# Columns of a task: the row's first flat token, how many it has, its line of the page table, the position of its first
# token, and the positions to attend to, of which a task left over has none.
START = tl.constexpr(0)
COUNT = tl.constexpr(1)
LINE = tl.constexpr(2)
POSITION = tl.constexpr(3)
BEGIN = tl.constexpr(4)
END = tl.constexpr(5)
COLUMNS = tl.constexpr(8)

ROWS = tl.constexpr(512)
"""Rows whose lengths are read at once."""
PARTS = tl.constexpr(32)
"""Parts that are merged at once."""


@triton.jit(
    do_not_specialize=["count", "most", "target"],
    do_not_specialize_on_alignment=["order", "rows", "starts", "lengths"],
)
def plan(
    tasks: tl.tensor,
    parts: tl.tensor,
    order: tl.tensor,
    rows: tl.tensor,
    starts: tl.tensor,
    lengths: tl.tensor,
    count: tl.tensor,
    most: tl.tensor,
    target: tl.tensor,
    LEAST: tl.constexpr,
    UNIT: tl.constexpr,
    WINDOW: tl.constexpr,
) -> None:
    """Write ``tasks`` [most, COLUMNS], and to ``parts`` [count + 1] the first task of each row. One program for each row.

    ``order`` [count] are the rows' numbers in the step. A part has at least LEAST positions, or all of its row, and each
    but a row's last has a multiple of UNIT. There are at most ``target`` parts and one more for each row.
    """
    this = tl.program_id(0)
    total = _parts_before(count, 1, order, starts, lengths, WINDOW)
    size = tl.cdiv(tl.maximum(tl.cdiv(total, target), LEAST), UNIT) * UNIT
    task = _parts_before(this, size, order, starts, lengths, WINDOW)
    row = tl.load(order + this)
    start, end = tl.load(starts + row), tl.load(lengths + row)
    tokens = tl.load(starts + row + 1) - start
    begin, span = _span(row, starts, lengths, WINDOW)
    number = tl.cdiv(span, size)
    step = tl.cdiv(tl.cdiv(span, number), UNIT) * UNIT  # no larger than size, so that there are as many
    tl.store(parts + this, task)
    for part in range(number):
        record = tasks + (task + part) * COLUMNS
        tl.store(record + START, start)
        tl.store(record + COUNT, tokens)
        tl.store(record + LINE, tl.load(rows + row))
        tl.store(record + POSITION, end - tokens)
        tl.store(record + BEGIN, begin + part * step)
        tl.store(record + END, tl.minimum(begin + (part + 1) * step, end))
    if this == count - 1:
        tl.store(parts + count, task + number)
        for left in range(task + number, most):
            tl.store(tasks + left * COLUMNS + BEGIN, 0)
            tl.store(tasks + left * COLUMNS + END, 0)


@triton.jit
def _parts_before(
    count: tl.tensor, size: tl.tensor, order: tl.tensor, starts: tl.tensor, lengths: tl.tensor, WINDOW: tl.constexpr
) -> tl.tensor:
    """How many parts of up to ``size`` positions the first ``count`` rows have."""
    total = 0
    for block in range(0, count, ROWS):
        place = block + tl.arange(0, ROWS)
        row = tl.load(order + place, mask=place < count, other=0)
        _, span = _span(row, starts, lengths, WINDOW)
        total += tl.sum(tl.where(place < count, tl.cdiv(span, size), 0))
    return total


@triton.jit
def _span(row: tl.tensor, starts: tl.tensor, lengths: tl.tensor, WINDOW: tl.constexpr) -> tl.tensor:
    """The first position that any query of ``row`` sees, and how many there are up to the last."""
    length = tl.load(lengths + row)
    first = length - tl.load(starts + row + 1) + tl.load(starts + row)
    begin = tl.maximum(first - WINDOW + 1, 0) if WINDOW else first * 0
    return begin, length - begin


@triton.jit(do_not_specialize=["table_stride", "width"], do_not_specialize_on_alignment=["page_table"])
def decode(
    means: tl.tensor,
    weights: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    page_table: tl.tensor,
    tasks: tl.tensor,
    table_stride: tl.tensor,
    width: tl.tensor,
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
    """Attention of one part of a row, for each pack of heads and task: programs that read the same slots run together.

    Writes ``means`` [tasks, packs, width, VALUE_DIM] and the logarithms of their ``weights`` [tasks, packs, width], both
    float32. ``width`` is how many vectors the row with the most tokens has. For the others see ``extend``.
    """
    record = tasks + tl.program_id(1) * COLUMNS
    begin, end = tl.load(record + BEGIN), tl.load(record + END)
    if begin < end:
        tile = tl.program_id(0)
        start, count, position = tl.load(record + START), tl.load(record + COUNT), tl.load(record + POSITION)
        index, head, there = vectors(0, count, tile, GROUP, PACK, BLOCK_M)
        vector = (start + index) * (KV_HEADS * GROUP) + head
        kv_head = tile // triton.cdiv(GROUP, PACK)
        mean, weight = attend(
            load_lines(query, tl.where(there, vector, 0), KEY_DIM, KEY_DIM),
            position + index,
            keys + kv_head * KEY_DIM,
            values + kv_head * VALUE_DIM,
            page_table + tl.load(record + LINE).to(tl.int64) * table_stride,
            begin,
            position + 1,
            end,
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
        partial = (tl.program_id(1) * tl.num_programs(0) + tile) * width + tl.arange(0, BLOCK_M)
        tl.store(weights + partial, weight, mask=there)
        store_lines(means, partial, there, mean, VALUE_DIM)


@triton.jit(do_not_specialize=["width"])
def merge(
    output: tl.tensor,
    means: tl.tensor,
    weights: tl.tensor,
    tasks: tl.tensor,
    parts: tl.tensor,
    width: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    PACK: tl.constexpr,
    VALUE_DIM: tl.constexpr,
) -> None:
    """Write to ``output`` [T, heads, VALUE_DIM] the means of all parts of a vector; one program for each row, and each
    of its ``width`` vectors in each pack of heads. For the others see ``decode``."""
    row, tile, vector = tl.program_id(0), tl.program_id(1) // width, tl.program_id(1) % width
    packs: tl.constexpr = triton.cdiv(GROUP, PACK)
    begin, end = tl.load(parts + row), tl.load(parts + row + 1)
    record = tasks + begin * COLUMNS
    member = tile % packs * PACK + vector % PACK
    if (vector // PACK < tl.load(record + COUNT)) & (member < GROUP):
        top = float("-inf")
        total = 0.0
        mean = tl.zeros([padded(VALUE_DIM)], tl.float32)
        for first in range(begin, end, PARTS):
            part = first + tl.arange(0, PARTS)
            partial = (tl.minimum(part, end - 1) * (KV_HEADS * packs) + tile) * width + vector
            weight = tl.where(part < end, tl.load(weights + partial), float("-inf"))
            higher = tl.maximum(top, tl.max(weight))
            share = tl.exp2(weight - higher)
            decay = tl.exp2(top - higher)
            mean = mean * decay + tl.sum(load_lines(means, partial, VALUE_DIM, VALUE_DIM) * share[:, None], 0)
            total = total * decay + tl.sum(share)
            top = higher
        token = tl.load(record + START) + vector // PACK
        column = tl.arange(0, padded(VALUE_DIM))
        place = output + (token.to(tl.int64) * KV_HEADS * GROUP + tile // packs * GROUP + member) * VALUE_DIM + column
        tl.store(place, (mean / total).to(output.dtype.element_ty), mask=column < VALUE_DIM)
