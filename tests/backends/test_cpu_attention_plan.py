"""A step's attention is cut so that each query meets each key it sees once, and common prefixes are read once."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgframe_cpu.attention_items import FEW_VECTORS, ITEMS, MERGES
from sgframe_cpu.attention_plan import SPLIT, Plan

GROUP, KV_HEADS = 3, 2


class Planned:
    """The plan of rows that compute the last ``own`` tokens of ``lines`` of slots."""

    def __init__(self, lines, own, threads=2, group=GROUP, kv_heads=KV_HEADS):
        self.own, self.lengths = own, np.array([len(line) for line in lines], np.int32)
        self.starts = np.array([0, *accumulate(own)], np.int32)
        self.table = np.full((len(lines), max(self.lengths) + 1), -1, np.int32)
        for row, line in enumerate(lines):
            self.table[row, : len(line)] = line
        self.group, self.kv_heads = group, kv_heads
        plan = Plan(int(self.starts[-1]), group, kv_heads, threads)
        plan.fill(np.arange(len(lines), dtype=np.int32), self.starts, self.lengths, self.table)
        self.items = plan.items[: plan.header[ITEMS]].tolist()
        self.merges = plan.merges[: plan.header[MERGES]].tolist()
        self.queries = plan.queries.tolist()

    def ranges(self, vectors):
        """Begin and end of the keys of items of so many vectors, without repetition."""
        return sorted({(item[3], item[4]) for item in self.items if item[1] == vectors})

    def seen(self):
        """How often each (flat query, head, slot) is met."""
        return Counter(
            (flat, each * self.group + vector % self.group, slot)
            for first, vectors, line, begin, end, head, heads, _ in self.items
            for vector in range(first, first + vectors)
            for flat, position, _ in [self.queries[vector // self.group]]
            for slot in self.table[line, begin : min(end, position + 1)].tolist()
            for each in range(head, head + heads)
        )

    def wanted(self):
        return Counter(
            (int(start) + i, head, slot)
            for row, (start, own) in enumerate(zip(self.starts, self.own, strict=False))
            for i in range(own)
            for slot in self.table[row, : self.lengths[row] - own + i + 1].tolist()
            for head in range(self.group * self.kv_heads)
        )

    def left(self):
        """How often each partial result of each head is left."""
        return Counter(
            (self.queries[vector // self.group][2] + part, each * self.group + vector % self.group)
            for first, vectors, _, _, _, head, heads, part in self.items
            if part >= 0
            for vector in range(first, first + vectors)
            for each in range(head, head + heads)
        )

    def merged(self):
        return Counter(
            (base + part, head)
            for _, base, parts in self.merges
            for part in range(parts)
            for head in range(self.group * self.kv_heads)
        )


def rows(*lengths):
    """Lines of slots that have nothing in common."""
    ends = [0, *accumulate(lengths)]
    return [list(range(*each)) for each in pairwise(ends)]


def branch(line, at, length):
    """A line that leaves ``line`` after ``at`` slots."""
    branch.next += length
    return line[:at] + list(range(branch.next, branch.next + length - at))


branch.next = 10**6


def test_a_decode_is_one_item_of_all_heads():
    assert Planned(rows(100), [1]).items == [[0, GROUP, 0, 0, 100, 0, KV_HEADS, -1]]


def test_a_prefill_is_cut_into_blocks_that_end_with_their_last_query():
    planned = Planned(rows(30), [30], kv_heads=1)  # 90 vectors: 64 are those of 21 queries and a head of one more
    assert planned.items == [[0, 64, 0, 0, 22, 0, 1, -1], [64, 26, 0, 0, 30, 0, 1, -1]]


def test_the_costliest_come_first():
    items = Planned(rows(100, 900, 500), [1, 1, 1], threads=1).items
    assert [item[4] for item in items] == [900, 500, 100]


def test_a_long_line_is_split_among_threads():
    assert Planned(rows(2000), [1]).ranges(GROUP) == [(0, 500), (500, 1000), (1000, 1500), (1500, 2000)]


def test_one_thread_splits_nothing():
    assert Planned(rows(2000), [1], threads=1).ranges(GROUP) == [(0, 2000)]


def test_parts_are_no_shorter_than_split():
    assert len(Planned(rows(2 * SPLIT + 10), [1], threads=8).ranges(GROUP)) == 2


def test_enough_rows_are_not_split():
    assert not Planned(rows(*[1000] * 8), [1] * 8).merges


def test_what_rows_have_in_common_is_read_together():
    line = list(range(300))
    lines = [line, *(branch(line, 250, 300) for _ in range(3))]
    planned = Planned(lines, [1] * 4, threads=1)
    assert planned.ranges(4 * GROUP) == [(0, 250)]
    assert planned.ranges(GROUP) == [(250, 300)]
    assert len(planned.merges) == 4


def test_a_short_prefix_is_not_worth_it():
    line = list(range(300))
    assert not Planned([line, *(branch(line, 9, 300) for _ in range(3))], [1] * 4).merges


def test_prefixes_nest():
    trunk = list(range(800))
    first, second = branch(trunk, 300, 800), branch(trunk, 300, 800)
    lines = [branch(limb, 700, 800) for limb in (first, second, first, second, first, second)]
    planned = Planned(lines, [1] * 6, threads=1)
    assert planned.ranges(6 * GROUP) == [(0, 300)]
    assert planned.ranges(3 * GROUP) == [(300, 700)]
    assert planned.ranges(GROUP) == [(700, 800)]


def test_a_query_is_no_part_of_the_prefix_it_shares():
    line = list(range(500))
    planned = Planned([line] * 3, [1, 1, 100], threads=1)  # the third computes what the others have in common
    assert planned.ranges(3 * GROUP + 99 * GROUP) == []
    assert planned.seen() == planned.wanted()


MIXES = {
    "mixed": (rows(80, 70, 5, 90, 40), [1, 70, 1, 4, 33]),
    "many short": (rows(*range(1, 40)), [1] * 39),
    "one long chunk": (rows(300), [90]),
    "as many as just fit": (rows(700), [FEW_VECTORS // GROUP]),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("threads", [1, 5])
def test_each_query_meets_each_key_once(mix, threads):
    planned = Planned(*MIXES[mix], threads)
    assert planned.seen() == planned.wanted()
    assert planned.left() == planned.merged()


@settings(max_examples=50)
@given(st.data())
def test_so_it_is_in_any_forest(data):
    lines = rows(data.draw(st.integers(1, 150)), 120)
    for _ in range(data.draw(st.integers(0, 6))):
        parent = data.draw(st.sampled_from(lines))
        lines.append(
            branch(parent, data.draw(st.integers(0, len(parent))), len(parent) + data.draw(st.integers(1, 50)))
        )
    own = [data.draw(st.integers(1, min(len(line), 20))) for line in lines]
    planned = Planned(lines, own, data.draw(st.integers(1, 3)), group=1, kv_heads=1)
    assert planned.seen() == planned.wanted()
    assert planned.left() == planned.merged()
