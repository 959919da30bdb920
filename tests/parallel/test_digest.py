"""Ranks that execute the same have the same digests; where they part, both sides' plans are shown."""

from __future__ import annotations

import numpy as np

from sgframe.messages import Appended, NewRow, Rewrite, ScheduleBatch, encode, ints
from sgframe.sampling import TokenSampling
from sgframe_torch.parallel.digest import KEPT, Comparison, History, PlanDigest, difference


def decode(step, slots=(7, 8), rows=(0, 1)):
    """A plan in which each of ``rows`` decodes one token."""
    ones = ints([1] * len(rows))
    return ScheduleBatch(step, ints(), [], [], ints(rows), ones, ints(slots), ones)


def applied(*batches, interval=4, inputs=()):
    digest = PlanDigest(interval)
    for batch in batches:
        digest.update(batch.step, encode(batch), *inputs)
    return digest


def last(digest):
    return digest.history().steps[-1].digest


def test_equal_plans_give_equal_digests():
    assert last(applied(decode(0), decode(1))) == last(applied(decode(0), decode(1)))


def test_another_row_order_gives_another_digest():
    assert last(applied(decode(0, rows=(0, 1)))) != last(applied(decode(0, rows=(1, 0))))


def test_what_was_made_of_a_plan_counts():
    one, other = np.array([0, 1], np.int32), np.array([0, 2], np.int32)
    assert last(applied(decode(0), inputs=[one])) != last(applied(decode(0), inputs=[other]))


def test_values_that_move_from_one_input_to_the_next_count():
    a, ab, b, bc = (np.array(values, np.int32) for values in ([1], [1, 2], [2, 3], [3]))
    assert last(applied(decode(0), inputs=[a, b])) != last(applied(decode(0), inputs=[ab, bc]))


def test_a_difference_stays():
    parted = applied(decode(0, slots=(7, 9)), *map(decode, range(1, 100)))
    assert last(parted) != last(applied(*map(decode, range(100))))


def test_every_interval_th_step_is_reported_once():
    digest = applied(*map(decode, range(10)), interval=4)
    assert [step for step, _ in digest.due()] == [0, 4, 8]
    assert digest.due() == []


def test_steps_whose_numbers_leap_are_reported_all_the_same():
    digest = applied(*map(decode, [5, 6, 30, 31, 34]), interval=4)
    assert [step for step, _ in digest.due()] == [5, 30, 34]


def test_a_bounded_number_of_steps_is_kept():
    assert [one.step for one in applied(*map(decode, range(2000))).history().steps] == list(range(2000 - KEPT, 2000))


def test_the_one_that_is_ahead_waits_for_the_other():
    comparison = Comparison()
    assert not comparison.differs([(0, b"a"), (4, b"b")], [])
    assert not comparison.differs([], [(0, b"a")])
    assert comparison.differs([], [(4, b"c")])


def test_reports_are_compared_by_step_and_not_in_their_order():
    comparison = Comparison()
    assert not comparison.differs([(0, b"a"), (8, b"b")], [(0, b"a"), (4, b"c"), (8, b"b")])
    assert comparison.differs([(12, b"d"), (16, b"e")], [(16, b"f")])


def test_a_step_that_one_rank_has_left_out_is_found_at_the_next_report():
    comparison, mine, theirs = (
        Comparison(),
        applied(*map(decode, range(9))),
        applied(*map(decode, [0, 1, 2, 3, 5, 6, 7, 8])),
    )
    assert comparison.differs(mine.due(), theirs.due())


def test_a_step_that_one_rank_has_not_come_to_is_no_difference():
    mine, theirs = applied(*map(decode, range(9))), applied(*map(decode, range(5)))
    assert difference("rank 1 of 2", mine.history(), theirs.history()) == (
        "rank 1 of 2 has not executed what rank 0 has, in steps before those that both still know the plans of"
    )


def test_a_rank_that_has_executed_nothing_shows_no_difference():
    assert "known to differ" not in difference("rank 1 of 2", applied(decode(0)).history(), History([]))


def test_both_sides_are_shown_around_the_first_step_that_differs():
    mine = applied(*(decode(step) for step in range(20)))
    theirs = applied(*(decode(step, slots=(7, 9) if step == 12 else (7, 8)) for step in range(19)))
    lines = difference("rank 1 of 2", mine.history(), theirs.history()).splitlines()
    assert lines[0] == "rank 1 of 2 has not executed what rank 0 has. The first step known to differ is 12:"
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        *(f"  step {step}, both" for step in (8, 9, 10, 11)),
        "> step 12, rank 0",
        "> step 12, rank 1 of 2",
        *(f"  step {step}, {who}" for step in (13, 14, 15) for who in ("rank 0", "rank 1 of 2")),
    ]
    assert "rows 0 1; counts 1 1; slots 7 8; samples 1 1" in lines[5]
    assert "rows 0 1; counts 1 1; slots 7 9; samples 1 1" in lines[6]


def test_a_step_that_one_rank_has_left_out_is_named():
    mine, theirs = applied(*map(decode, [0, 1, 2, 3])), applied(*map(decode, [0, 1, 3]))
    text = difference("rank 1 of 2", mine.history(), theirs.history())
    assert "known to differ is 2:" in text
    assert "> step 2, rank 1 of 2: not executed" in text


def test_a_difference_from_before_what_is_kept_is_shown_from_there_on():
    mine = History(applied(*map(decode, range(10))).history().steps[4:])
    theirs = applied(decode(0, slots=(7, 9)), *map(decode, range(1, 10))).history()
    assert "known to differ is 4:" in difference("rank 1 of 2", mine, theirs)


def plan_in_words(batch, *inputs):
    return applied(batch, inputs=inputs).history().steps[0].plan


def test_a_plan_in_words_tells_all_that_changes():
    batch = ScheduleBatch(
        step=3,
        released=ints([4]),
        admitted=[NewRow(2, ints([11, 12, 13]), 3, ints([40]), TokenSampling(seed=1))],
        rewrites=[Rewrite(1, 16, ints([50, 51]))],
        rows=ints([2, 1]),
        counts=ints([2, 1]),
        slots=ints([41, 42, 60]),
        samples=ints([1, 1]),
        appended=[Appended(1, ints([9]))],
    )
    assert plan_in_words(batch, np.array([0, 2, 3], np.int32)).startswith(
        "released 4; row 2 admitted with tokens 11 12 13, cached in slots 40; row 1 from 16 in slots 50 51; "
        "row 1 goes on with 9; rows 2 1; counts 2 1; slots 41 42 60; samples 1 1; made 0 2 3; plan "
    )


def test_values_that_are_not_shown_show_in_a_checksum():
    one = plan_in_words(decode(0, rows=range(64), slots=range(64)))
    other = plan_in_words(decode(0, rows=range(64), slots=[*range(63), 99]))
    assert "slots 0 1 2 3 4 5 6 7 8 9 10 11 … (64, " in one
    assert one.partition("; slots")[0] == other.partition("; slots")[0]
    assert one != other
