"""The row table: what a batch's diff makes of it, and the flat inputs of a step."""

from __future__ import annotations

import pytest
from plain_ops import PlainOps

from sgframe.messages import NewRow, Rewrite, ScheduleBatch, ints
from sgframe.sampling import TokenSampling
from sgframe_torch.rows import PromptSpan, RowTable

GREEDY = TokenSampling(seed=0, temperature=0.0)


def batch(rows, counts, slots, samples, *, released=(), admitted=(), rewrites=()):
    lists = (ints(each) for each in (rows, counts, slots, samples))
    return ScheduleBatch(0, ints(released), list(admitted), list(rewrites), *lists)


def new(row, tokens, slots=(), sampling=GREEDY, logprobs_from=1):
    return NewRow(row, ints(tokens), len(tokens), ints(slots), sampling, logprobs_from)


@pytest.fixture
def table():
    return RowTable(4, 16, PlainOps())


def run(table, *arguments, **diff):
    step = table.apply(batch(*arguments, **diff))
    table.advance(step.batch)
    return step


def test_rows_lie_end_to_end(table):
    step = run(table, [2, 0], [3, 2], [9, 4, 7, 1, 3], [1, 0], admitted=[new(0, [50, 51, 52]), new(2, [60, 61, 62])])
    inputs = step.inputs
    assert inputs.tokens.tolist() == [60, 61, 62, 50, 51]
    assert inputs.positions.tolist() == [0, 1, 2, 0, 1]
    assert inputs.slots.tolist() == [9, 4, 7, 1, 3]
    assert inputs.rows.tolist() == [2, 0]
    assert inputs.query_starts.tolist() == [0, 3, 5]
    assert inputs.kv_lengths.tolist() == [3, 2]
    assert step.sampled == [2]
    assert step.sampled_at.tolist() == [2]


def test_page_table_holds_prefix_and_new_slots(table):
    step = run(table, [1], [2], [5, 8], [1], admitted=[new(1, [50, 51, 52, 53], slots=[7, 3])])
    assert step.inputs.positions.tolist() == [2, 3]
    assert step.inputs.kv_lengths.tolist() == [4]
    assert step.inputs.page_table[1, :4].tolist() == [7, 3, 5, 8]


def test_next_step_goes_on_where_the_last_ended(table):
    run(table, [1], [2], [5, 8], [0], admitted=[new(1, [50, 51, 52])])
    run(table, [1], [1], [2], [1])
    table[1].tokens.append(99)
    step = run(table, [1], [1], [6], [1])
    assert step.inputs.tokens.tolist() == [99]
    assert step.inputs.positions.tolist() == [3]
    assert step.inputs.page_table[1, :4].tolist() == [5, 8, 2, 6]


def test_rewrite_changes_the_slots_of_computed_tokens(table):
    run(table, [1], [3], [5, 8, 2], [0], admitted=[new(1, [50, 51, 52, 53])])
    step = run(table, [1], [1], [6], [1], rewrites=[Rewrite(1, 1, ints([10, 11]))])
    assert step.inputs.page_table[1, :4].tolist() == [5, 10, 11, 6]


def test_row_released_and_admitted_in_one_batch_is_the_new_one(table):
    run(table, [1], [3], [5, 8, 2], [1], admitted=[new(1, [50, 51, 52])])
    step = run(table, [1], [2], [6, 7], [1], released=[1], admitted=[new(1, [70, 71])])
    assert step.inputs.tokens.tolist() == [70, 71]
    assert step.inputs.kv_lengths.tolist() == [2]


def test_released_row_is_gone(table):
    run(table, [1], [2], [5, 8], [1], admitted=[new(1, [50, 51])])
    run(table, [], [], [], [], released=[1])
    assert len(table) == 0


def test_tokens_count_as_computed_only_after_advance(table):
    step = table.apply(batch([1], [2], [5, 8], [1], admitted=[new(1, [50, 51])]))
    assert table[1].computed == 0
    table.advance(step.batch)
    assert table[1].computed == 2


def test_appending_leaves_the_message_as_it_was(table):
    admitted = new(1, [50, 51])
    run(table, [1], [2], [5, 8], [1], admitted=[admitted])
    table[1].tokens.append(99)
    assert admitted.tokens.tolist() == [50, 51]


WANTS_PROMPT = TokenSampling(seed=0, prompt_logprobs=2)


def test_prompt_logprobs_come_from_the_token_before(table):
    admitted = [new(0, [40]), new(1, [50, 51, 52, 53], sampling=WANTS_PROMPT)]
    step = run(table, [0, 1], [1, 2], [5, 8, 9], [1, 0], admitted=admitted)
    assert step.prompt_spans == [PromptSpan(row=1, start=1, flat=1, count=2)]
    step = run(table, [1], [2], [3, 4], [1])
    assert step.prompt_spans == [PromptSpan(row=1, start=3, flat=0, count=1)]


def test_no_prompt_logprobs_for_output_or_what_was_sent_before(table):
    admitted = NewRow(1, ints([50, 51, 52, 53, 54]), 4, ints(), WANTS_PROMPT, 3)
    step = run(table, [1], [5], [1, 2, 3, 4, 5], [1], admitted=[admitted])
    assert step.prompt_spans == [PromptSpan(row=1, start=3, flat=2, count=1)]
