"""What every executor must get right of a step's output: who is sampled, masks, logprobs. Knows no device."""

from __future__ import annotations

import pytest

from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver


def asking(logprobs: int = -1, prompt_logprobs: int = -1) -> TokenSampling:
    """Greedy, with logprobs."""
    return TokenSampling(seed=0, temperature=0.0, logprobs=logprobs, prompt_logprobs=prompt_logprobs)


class OutputContract:
    """A step's output has what was asked for, no more, and in the order of the batch.

    It holds for a device that makes its tokens up, as long as it obeys masks. Part of BackendContract;
    by itself a subclass gives the fixture ``driver``.
    """

    # --------------------------------------------------------------------------------------- who is sampled

    def test_only_rows_whose_last_token_is_computed_are_sampled(self, driver: Driver) -> None:
        rows = [driver.admit(driver.prompt(6, salt)) for salt in range(3)]
        output = driver.step({rows[2]: 6, rows[0]: 5, rows[1]: 6})
        assert output.step == 0
        assert list(output.rows) == [rows[2].row, rows[1].row]
        assert len(output.tokens) == 2
        assert all(0 <= token < driver.loaded.vocab_size for token in output.tokens)

    def test_a_row_that_wants_no_token_gets_none(self, driver: Driver) -> None:
        prompts = [driver.prompt(6, salt) for salt in range(3)]
        expected = [driver.generate(prompt, 1) for prompt in prompts]
        rows = [driver.admit(prompt, samples=order != 1) for order, prompt in enumerate(prompts)]
        output = driver.step(dict.fromkeys(rows, 6))
        assert list(output.rows) == [rows[0].row, rows[2].row]
        assert list(output.tokens) == [*expected[0], *expected[2]]

    def test_a_step_may_sample_nothing(self, driver: Driver) -> None:
        row = driver.admit(driver.prompt(6), asking(prompt_logprobs=0), samples=False)
        output = driver.step({row: 6})
        assert (list(output.rows), list(output.tokens), output.logprobs) == ([], [], [])
        assert list(row.prompt_logprobs) == [1, 2, 3, 4, 5]

    # ------------------------------------------------------------------------------------------------ masks

    def test_a_mask_leaves_only_what_it_allows(self, driver: Driver) -> None:
        rows = [driver.admit(driver.prompt(5, salt)) for salt in range(2)]
        last = driver.loaded.vocab_size - 1
        output = driver.step(dict.fromkeys(rows, 5), {rows[0]: driver.mask(last), rows[1]: driver.mask(3)})
        assert list(output.tokens) == [last, 3]

    def test_masks_for_no_row_leave_all_free(self, driver: Driver) -> None:
        prompt = driver.prompt(5)
        expected = driver.generate(prompt, 1)
        row = driver.admit(prompt)
        driver.step({row: 5}, {})
        assert row.output == expected

    def test_masks_go_by_row_and_leave_the_others_free(self, driver: Driver) -> None:
        prompts = [driver.prompt(5, salt) for salt in range(4)]
        expected = [driver.generate(prompt, 1) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        output = driver.step(dict.fromkeys(rows, 5), {rows[3]: driver.mask(7), rows[1]: driver.mask(70)})
        assert list(output.tokens) == [*expected[0], 70, *expected[2], 7]

    def test_masks_may_come_once_the_step_has_begun(self, driver: Driver) -> None:
        prompts = [driver.prompt(5), driver.prompt(4, 1)]
        expected = driver.generate(prompts[0], 2)
        row, masked = (driver.admit(prompt) for prompt in prompts)
        driver.step_ahead({masked: 4, row: 5})
        driver.step_ahead({row: 1, masked: 1}, {masked: driver.mask(9)})
        driver.catch_up()
        assert row.output == expected
        assert masked.output[1] == 9

    @pytest.mark.parametrize("allowed", [31, 0])
    def test_tokens_beyond_the_end_of_a_mask_are_forbidden(self, driver: Driver, allowed: int) -> None:
        row = driver.admit(driver.prompt(5))
        output = driver.step({row: 5}, {row: driver.mask(allowed)[:4]})
        assert list(output.tokens) == [allowed]

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_a_mask_that_leaves_nothing_gives_minus_one_to_its_row(self, driver: Driver, temperature: float) -> None:
        prompt = driver.prompt(5)
        expected = driver.generate(prompt, 1)
        lost = driver.admit(driver.prompt(6, 1), TokenSampling(seed=0, temperature=temperature))
        output = driver.step({lost: 6, driver.admit(prompt): 5}, {lost: driver.mask()})
        assert list(output.tokens) == [-1, *expected]

    # --------------------------------------------------------------------------------------------- logprobs

    def test_logprobs_come_in_the_number_asked(self, driver: Driver) -> None:
        wanted = [-1, 0, 3]
        rows = [driver.admit(driver.prompt(5), asking(logprobs=k)) for k in wanted]
        driver.decode(rows, 2)
        assert rows[0].logprobs == [None, None]
        for row, k in zip(rows[1:], wanted[1:], strict=True):
            entries = [entry for entry in row.logprobs if entry is not None]
            assert [entry.token for entry in entries] == row.output
            assert [len(entry.top_ids) for entry in entries] == [k, k]
            assert [len(entry.top_logprobs) for entry in entries] == [k, k]
            assert all(entry.logprob <= 0 for entry in entries)
            assert all(entry.top_logprobs == sorted(entry.top_logprobs, reverse=True) for entry in entries)

    def test_logprobs_are_absent_when_nobody_asks(self, driver: Driver) -> None:
        row = driver.admit(driver.prompt(5))
        output = driver.step({row: 5})
        assert output.logprobs == []
        assert output.prompt_logprobs == []

    @pytest.mark.parametrize("wanted", [0, 2])
    def test_prompt_logprobs_cover_each_prompt_token_but_the_first_once(self, driver: Driver, wanted: int) -> None:
        prompt = driver.prompt(10)
        whole, cut = (driver.admit(prompt, asking(prompt_logprobs=wanted)) for _ in range(2))
        driver.prefill(whole)
        driver.prefill(cut, 4)
        driver.decode([whole, cut], 2)
        for row in (whole, cut):
            assert list(row.prompt_logprobs) == list(range(1, 10))
            assert [entry.token for entry in row.prompt_logprobs.values()] == prompt[1:]
            assert all(
                len(entry.top_ids) == len(entry.top_logprobs) == wanted for entry in row.prompt_logprobs.values()
            )

    def test_prompt_logprobs_of_several_rows_come_in_one_step(self, driver: Driver) -> None:
        prompts, wanted = [driver.prompt(9), driver.prompt(5, 1), driver.prompt(7, 2)], [2, -1, 0]
        sampling = [asking(prompt_logprobs=k) for k in wanted]
        alone, together = (
            [driver.admit(prompt, asked) for prompt, asked in zip(prompts, sampling, strict=True)] for _ in range(2)
        )
        for row in alone:
            driver.prefill(row)
        driver.decode(together, 1)
        for row, same in zip(alone, together, strict=True):
            assert list(same.prompt_logprobs) == list(row.prompt_logprobs)
            for found, right in zip(same.prompt_logprobs.values(), row.prompt_logprobs.values(), strict=True):
                assert found.token == right.token
                assert [found.logprob, *found.top_logprobs] == pytest.approx(
                    [right.logprob, *right.top_logprobs], abs=1e-3
                )

    def test_prompt_logprobs_start_where_they_are_still_wanted(self, driver: Driver) -> None:
        row = driver.admit(driver.prompt(10), asking(prompt_logprobs=0), logprobs_from=6)
        driver.prefill(row)
        assert list(row.prompt_logprobs) == [6, 7, 8, 9]
