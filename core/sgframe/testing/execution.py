"""What every executor must get right of a batch, however it cuts, shares, mixes and moves rows. Knows no device."""

from __future__ import annotations

import pytest

from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver


class ExecutionContract:
    """Greedy tokens are the same in whatever batches, slots and company they are computed.

    Part of BackendContract; by itself a subclass gives the fixture ``driver``.
    """

    # ------------------------------------------------------------------------------------ one model of progress

    def test_the_cut_of_a_prefill_changes_nothing(self, driver: Driver) -> None:
        prompt = driver.prompt(23)
        expected = driver.generate(prompt, 6)
        for pieces in (2, 7, 23):
            row = driver.admit(prompt)
            driver.prefill(row, pieces)
            driver.decode([row], 5)
            driver.release(row)
            assert row.output == expected, f"in {pieces} pieces"

    def test_a_cached_prefix_changes_nothing(self, driver: Driver) -> None:
        most = driver.aligned(19)
        prompt = driver.prompt(most + 1)
        first = driver.admit(prompt)
        driver.decode([first], 6)
        slots = driver.release(first, keep=most)
        for cached in (driver.aligned(1), driver.aligned(13), most):
            row = driver.admit(prompt, cached=slots[:cached])
            driver.decode([row], 6)
            driver.release(row)
            assert row.output == first.output, f"with {cached} cached tokens"

    def test_a_shared_prefix_serves_rows_that_go_on_differently(self, driver: Driver) -> None:
        head = driver.prompt(driver.aligned(12))
        prompts = [head + driver.prompt(5, salt) for salt in (1, 2, 3)]
        expected = [driver.generate(prompt, 4) for prompt in prompts]
        first = driver.admit(head)
        driver.prefill(first)
        slots = driver.release(first, keep=len(head))
        rows = [driver.admit(prompt, cached=slots) for prompt in prompts]
        driver.decode(rows, 4)
        assert [row.output for row in rows] == expected

    @pytest.mark.parametrize("leads", [True, False], ids=["the other first", "the other last"])
    def test_a_row_starts_from_what_another_computes_in_the_same_step(self, driver: Driver, leads: bool) -> None:
        prompt = driver.prompt(driver.aligned(20))
        expected = driver.generate([*prompt, 5], 3)
        leader = driver.admit([*prompt, 4])
        first = 0 if leads else driver.aligned(1)
        shared = driver.free_slots[first : first + len(prompt)]  # which the leader is given next
        follower = driver.admit([*prompt, 5], cached=shared)
        work = {leader: len(prompt) + 1, follower: 1}
        driver.step(work if leads else dict(reversed(work.items())))
        assert leader.slots[: len(prompt)] == shared
        driver.decode([leader, follower], 2)
        assert follower.output == expected

    def test_a_retracted_row_resumes_where_it_stopped(self, driver: Driver) -> None:
        prompt = driver.prompt(9)
        expected = driver.generate(prompt, 8)
        row = driver.admit(prompt)
        driver.decode([row], 3)
        driver.release(row)
        other = driver.admit(driver.prompt(15, 1))  # overwrites what the row had
        driver.prefill(other)
        resumed = driver.admit(prompt, output=row.output)
        driver.decode([resumed], 5)
        assert resumed.output == expected

    def test_tokens_that_are_forced_count_like_those_that_are_sampled(self, driver: Driver) -> None:
        prompt = driver.prompt(9)
        forced = driver.prompt(4, 1)
        resumed = driver.admit(prompt, output=[*driver.generate(prompt, 2), *forced])
        driver.decode([resumed], 3)
        row, other = driver.admit(prompt), driver.admit(driver.prompt(5, 2))
        driver.decode([row, other], 2)
        driver.append(row, forced)
        driver.decode([row, other], 3)
        assert row.output == resumed.output

    def test_a_rewritten_row_reads_the_other_copy(self, driver: Driver) -> None:
        start = driver.aligned(3)
        end = start + driver.aligned(6)
        prompt = driver.prompt(end + 1)
        expected = driver.generate(prompt, 6)
        kept, row = driver.admit(prompt), driver.admit(prompt)
        driver.prefill(kept)
        driver.prefill(row)
        driver.decode([kept, row], 1)
        driver.rewrite(row, start, kept.slots[start:end])
        other = driver.admit(driver.prompt(30, 1))  # takes the slots that this freed
        driver.step({other: 30, row: row.pending})
        driver.decode([row], 3)
        assert row.output == expected

    # ------------------------------------------------------------------------------------- several in one batch

    def test_several_rows_end_and_begin_in_one_step(self, driver: Driver) -> None:
        prompts = [driver.prompt(5 + salt, salt) for salt in range(4)]
        expected = [driver.generate(prompt, 3) for prompt in prompts]
        old = [driver.admit(driver.prompt(7, salt)) for salt in (4, 5, 6)]
        stays = driver.admit(prompts[0])
        driver.decode([*old, stays], 2)
        for row in old:
            driver.release(row)
        begun, cut, waits = (driver.admit(prompt) for prompt in prompts[1:])
        driver.step({begun: 6, stays: 1, cut: 3})
        driver.decode([waits, stays, cut, begun], 3)
        assert begun.output[:3] == expected[1]
        assert cut.output == expected[2]
        assert waits.output == expected[3]
        assert stays.output[:3] == expected[0]

    @pytest.mark.parametrize("at_once", [True, False], ids=["computed at once", "computed later"])
    def test_several_rows_are_rewritten_in_one_step(self, driver: Driver, at_once: bool) -> None:
        end = driver.aligned(6)
        prompts = [driver.prompt(end + 1, salt) for salt in (1, 2)]
        expected = [driver.generate(prompt, 4) for prompt in prompts]
        kept, rows = ([driver.admit(prompt) for prompt in prompts] for _ in range(2))
        for row in (*kept, *rows):
            driver.prefill(row)
        for row, copy in zip(rows, kept, strict=True):
            driver.rewrite(row, 0, copy.slots[:end])
        other = driver.admit(driver.prompt(2 * end, 3))  # takes the slots that this freed
        driver.step({other: 2 * end} | (dict.fromkeys(rows, 1) if at_once else {}))
        driver.decode(rows, 2 if at_once else 3)
        assert [row.output for row in rows] == expected

    @pytest.mark.parametrize("at_once", [True, False], ids=["computed at once", "computed later"])
    def test_several_rows_are_forced_in_one_step(self, driver: Driver, at_once: bool) -> None:
        prompts, forced = [driver.prompt(7), driver.prompt(9, 1)], [driver.prompt(3, 2), driver.prompt(4, 3)]
        rows = [driver.admit(prompt) for prompt in prompts]
        other = driver.admit(driver.prompt(5, 4))
        driver.decode([*rows, other], 1)
        resumed = [
            driver.admit(prompt, output=row.output + tokens)
            for prompt, row, tokens in zip(prompts, rows, forced, strict=True)
        ]
        driver.decode(resumed, 2)
        for row, tokens in zip(rows, forced, strict=True):
            driver.append(row, tokens)
        driver.step({other: 1} | ({row: row.pending for row in rows} if at_once else {}))
        driver.decode(rows, 1 if at_once else 2)
        assert [row.output for row in rows] == [row.output for row in resumed]

    # --------------------------------------------------------------------------------- results that come later

    def test_the_next_step_may_come_before_the_result_of_the_last(self, driver: Driver) -> None:
        prompts = [driver.prompt(9), driver.prompt(4, 1)]
        expected = [driver.generate(prompt, 8) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        driver.decode_ahead(rows, 8)
        assert [row.output for row in rows] == expected

    def test_rows_may_go_on_in_another_order_or_wait(self, driver: Driver) -> None:
        prompts = [driver.prompt(6, salt) for salt in range(3)]
        expected = [driver.generate(prompt, 6) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        driver.step_ahead({rows[2]: 6, rows[0]: 6, rows[1]: 6})
        for order in ((1, 2), (2, 0), (0,), (0, 2, 1), (1, 0, 2)):
            driver.step_ahead({rows[each]: 1 for each in order})
        driver.catch_up()
        assert [row.output for row in rows] == [
            tokens[: len(row.output)] for row, tokens in zip(rows, expected, strict=True)
        ]
        assert [len(row.output) for row in rows] == [5, 4, 5]

    def test_a_result_may_come_after_its_row_was_given_away(self, driver: Driver) -> None:
        prompts = [driver.prompt(6, salt) for salt in range(3)]
        expected = [driver.generate(prompt, 4) for prompt in prompts]
        ended, stays = driver.admit(prompts[0]), driver.admit(prompts[1])
        driver.step_ahead({ended: 6, stays: 6})
        driver.release(ended)
        begun = driver.admit(prompts[2])
        assert begun.row == ended.row
        driver.step_ahead({stays: 1, begun: 4})
        driver.decode_ahead([begun, stays], 2)
        assert ended.output == expected[0][:1]
        assert stays.output == expected[1]
        assert begun.output == expected[2][:2]

    @pytest.mark.parametrize("cut", [1, 3, 5])
    def test_tokens_may_be_forced_after_one_that_is_still_to_come(self, driver: Driver, cut: int) -> None:
        prompt, forced = driver.prompt(9), driver.prompt(4, 1)
        resumed = driver.admit(prompt, output=[*driver.generate(prompt, 1), *forced])
        driver.decode([resumed], 3)
        row, other = driver.admit(prompt), driver.admit(driver.prompt(5, 2))
        driver.step_ahead({other: 5, row: 9})
        driver.append(row, forced)
        driver.step_ahead({other: 1, row: cut})
        driver.decode_ahead([row], 3 - (cut == 5))
        assert row.output == resumed.output

    def test_a_row_without_a_token_goes_on_and_harms_no_other(self, driver: Driver) -> None:
        prompt = driver.prompt(5)
        expected = driver.generate(prompt, 5)
        lost, row = driver.admit(driver.prompt(6, 1)), driver.admit(prompt)
        driver.step_ahead({lost: 6, row: 5}, {lost: driver.mask()})
        driver.decode_ahead([row, lost], 2)
        driver.release(lost)
        driver.decode([row], 2)
        assert lost.output[0] == -1
        assert row.output == expected

    # ---------------------------------------------------------------------------------------------- neighbours

    def test_neighbours_in_the_batch_change_nothing(self, driver: Driver) -> None:
        prompts = [driver.prompt(length, length) for length in (1, 2, 17, 30)]
        expected = [driver.generate(prompt, 5) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        driver.decode(rows, 5)
        assert [row.output for row in rows] == expected

    def test_a_prefill_beside_a_decode_changes_neither(self, driver: Driver) -> None:
        prompts = [driver.prompt(8), driver.prompt(24, 1)]
        expected = [driver.generate(prompt, 6) for prompt in prompts]
        early, late = driver.admit(prompts[0]), driver.admit(prompts[1])
        driver.prefill(early)
        driver.step({early: 1, late: 11})
        driver.step({late: 13, early: 1})
        driver.decode([late, early], 3)
        assert early.output == expected[0]
        assert late.output == expected[1][:4]

    def test_a_released_row_leaves_nothing_to_the_next(self, driver: Driver) -> None:
        prompt = driver.prompt(11)
        expected = driver.generate(prompt, 4)
        driver.generate(driver.prompt(40, 1), 3, TokenSampling(seed=1, temperature=5.0, logprobs=2))
        assert driver.generate(prompt, 4) == expected
