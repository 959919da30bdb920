"""What becomes of a step's flat inputs when some of its rows are token trees, and where scores come from."""

from __future__ import annotations

import pytest
import torch
from plain_ops import PlainOps

from sgframe.messages import NewRow, ScheduleBatch, Tree, ints
from sgframe.sampling import TokenSampling
from sgframe_torch.rows import RowTable
from sgframe_torch.trees import branch, scores

GREEDY = TokenSampling(seed=0, temperature=0.0)
FORKED = [-1, 0, 0, 2, -1]
"""Parents: two nodes in line with the prompt, a fork below the first of them, and one at the prompt."""


def batch(rows, counts, slots, admitted=()):
    samples = ints([0] * len(rows))
    return ScheduleBatch(0, ints(), list(admitted), [], ints(rows), ints(counts), ints(slots), samples)


def new_tree(row, prompt, nodes, parents, places=(), tokens=()):
    tree = Tree(ints(parents), ints(places), ints(tokens))
    return NewRow(row, ints([*prompt, *nodes]), len(prompt), ints(), GREEDY, tree=tree)


@pytest.fixture
def table():
    return RowTable(8, 16, PlainOps())


def run(table, *arguments):
    step = table.apply(batch(*arguments))
    table.advance(step.batch)
    return step


def lines(inputs):
    """Each segment's positions, and the slots that its last token reads."""
    starts, positions = inputs.query_starts.tolist(), inputs.positions.tolist()
    found = []
    for index, (row, length) in enumerate(zip(inputs.rows.tolist(), inputs.kv_lengths.tolist(), strict=True)):
        segment = positions[starts[index] : starts[index + 1]]
        found.append((segment, inputs.page_table[row, :length].tolist()))
    return found


def test_nodes_off_the_line_read_the_prompt_and_their_path(table):
    step = run(table, [3], [7], [90, 91, 1, 2, 3, 4, 5], [new_tree(3, [50, 51], [60, 61, 62, 63, 64], FORKED)])
    inputs = branch(step.inputs, step.tree_parts, PlainOps())
    assert lines(inputs) == [
        ([0, 1, 2, 3], [90, 91, 1, 2]),
        ([3, 4], [90, 91, 1, 3, 4]),
        ([2], [90, 91, 5]),
    ]
    assert inputs.tokens.tolist() == [50, 51, 60, 61, 62, 63, 64]
    assert inputs.slots.tolist() == [90, 91, 1, 2, 3, 4, 5]
    assert inputs.page_table.shape == (3, 5)


def test_tensors_keep_the_types_that_attention_reads(table):
    step = run(table, [3], [7], [90, 91, 1, 2, 3, 4, 5], [new_tree(3, [50, 51], [60, 61, 62, 63, 64], FORKED)])
    inputs = branch(step.inputs, step.tree_parts, PlainOps())
    for name in ("tokens", "positions", "slots", "rows", "query_starts", "kv_lengths", "page_table"):
        assert getattr(inputs, name).dtype == getattr(step.inputs, name).dtype, name
        assert getattr(inputs, name).is_contiguous(), name


def test_later_nodes_read_what_an_earlier_step_wrote(table):
    run(table, [3], [5], [90, 91, 1, 2, 3], [new_tree(3, [50, 51], [60, 61, 62, 63, 64], FORKED)])
    step = run(table, [3], [2], [4, 5])
    assert lines(branch(step.inputs, step.tree_parts, PlainOps())) == [([4], [90, 91, 1, 3, 4]), ([2], [90, 91, 5])]


def test_rows_beside_a_tree_stay_as_they_are(table):
    plain = [NewRow(row, ints([7, 8, 9]), 3, ints(), GREEDY) for row in (1, 2)]
    admitted = [*plain, new_tree(5, [50], [60, 61, 62], [-1, -1, 1])]
    step = run(table, [2, 5, 1], [3, 4, 2], [10, 11, 12, 20, 21, 22, 23, 30, 31], admitted)
    assert lines(branch(step.inputs, step.tree_parts, PlainOps())) == [
        ([0, 1, 2], [10, 11, 12]),
        ([0, 1], [20, 21]),
        ([1, 2], [20, 22, 23]),
        ([0, 1], [30, 31]),
    ]


@pytest.mark.parametrize(("count", "parents"), [(2, FORKED), (4, FORKED), (7, [-1, 0, 1, 2, 3])])
def test_what_lies_in_one_line_needs_no_further_rows(table, count, parents):
    step = run(table, [3], [count], range(count), [new_tree(3, [50, 51], [60, 61, 62, 63, 64], parents)])
    assert branch(step.inputs, step.tree_parts, PlainOps()) is step.inputs


def test_a_step_without_trees_has_no_tree_parts(table):
    run(table, [3], [3], [0, 1, 2], [new_tree(3, [50], [60, 61], [-1, -1])])
    step = run(table, [1], [2], [3, 4], [NewRow(1, ints([7, 8]), 2, ints(), GREEDY)])
    assert step.tree_parts == []


class Recorder:
    """A model whose logits are the hidden states themselves; it keeps how many rows each call had."""

    def __init__(self):
        self.calls = []

    def logits(self, hidden):
        self.calls.append(len(hidden))
        return hidden


def test_scores_are_the_log_softmax_after_the_place(table):
    new = new_tree(3, [50, 51], [60, 61], [-1, -1], places=[1, -1, 1, 0], tokens=[2, 0, 1, 1])
    step = run(table, [3], [4], [0, 1, 2, 3], [new])
    hidden = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    model = Recorder()
    [given] = scores(model, hidden, step.tree_parts)
    right = hidden.log_softmax(-1)
    assert (given.row, given.asked.tolist()) == (3, [0, 1, 2, 3])
    assert given.logprobs == [right[at, token].item() for at, token in [(3, 2), (1, 0), (3, 1), (2, 1)]]
    assert model.calls == [3]  # the places of all trees at once, each once


def test_logits_of_many_places_come_in_slices(table):
    table = RowTable(1, 200, PlainOps())
    new = new_tree(0, [5], range(149), [-1] * 149, places=range(-1, 149), tokens=[1] * 150)
    step = run(table, [0], [150], range(150), [new])
    hidden = torch.randn(150, 3, generator=torch.Generator().manual_seed(0))
    model = Recorder()
    [given] = scores(model, hidden, step.tree_parts)
    torch.testing.assert_close(torch.tensor(given.logprobs), hidden.log_softmax(-1)[:, 1])
    assert model.calls == [64, 64, 22]


def test_scores_after_logits_that_are_not_finite_are_nan(table):
    step = run(table, [0], [1], [0], [new_tree(0, [5], [], [], places=[-1, -1], tokens=[0, 2])])
    [given] = scores(Recorder(), torch.tensor([[0.0, float("inf"), 1.0]]), step.tree_parts)
    assert torch.tensor(given.logprobs).isnan().all()
