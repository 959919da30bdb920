"""What every executor must get right, for its author's own tests: ``class TestMine(BackendContract)``.

It asks for nothing that depends on the model: it compares an executor with itself. It knows no device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from sgframe.interfaces.backend import Executor, ExecutorSpec
from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver
from sgframe.testing.trees import TreeContract


class BackendContract(TreeContract, ABC):
    """Subclass it in a test module, name the subclass ``Test…``, and give ``make_executor`` and ``make_spec``.

    The spec must allow 8 rows, 128 tokens in a step and in a request, and 512 KV slots; where a page has more than 16
    tokens, 3 pages in a step and in a request, and 16 pages. Tokens are compared exactly: where a device's arithmetic
    depends on the shape of a batch, load the model in float32.
    """

    @abstractmethod
    def make_executor(self) -> Executor:
        """A fresh executor, not loaded."""

    @abstractmethod
    def make_spec(self) -> ExecutorSpec:
        """What the executor is to load."""

    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        """Drives a fresh executor, loaded."""
        executor = self.make_executor()
        try:
            yield Driver(executor, self.make_spec())
        finally:
            executor.close()

    # ------------------------------------------------------------------------------------------------ loading

    def test_load_announces_what_there_is(self, driver: Driver) -> None:
        spec = self.make_spec()
        loaded = driver.loaded
        assert loaded.vocab_size > 0
        assert loaded.slots > 0
        assert loaded.page_size > 0
        assert loaded.context_length > 0
        assert loaded.dtype not in ("", "auto")
        assert loaded.slots == (spec.kv_slots or loaded.slots)
        assert loaded.context_length == (spec.context_length or loaded.context_length)
        assert all(line.bytes >= 0 and line.origin for line in loaded.ledger)

    def test_closing_twice_is_harmless(self) -> None:
        executor = self.make_executor()
        executor.load(self.make_spec(), lambda what, done, total: None)
        executor.close()
        executor.close()

    # ------------------------------------------------------------------------------------ one model of progress

    def test_the_cut_of_a_prefill_changes_nothing(self, driver: Driver) -> None:
        prompt = self.prompt(driver, 23)
        expected = driver.generate(prompt, 6)
        for pieces in (2, 7, 23):
            row = driver.admit(prompt)
            driver.prefill(row, pieces)
            driver.decode([row], 5)
            driver.release(row)
            assert row.output == expected, f"in {pieces} pieces"

    def test_a_cached_prefix_changes_nothing(self, driver: Driver) -> None:
        most = driver.aligned(19)
        prompt = self.prompt(driver, most + 1)
        first = driver.admit(prompt)
        driver.decode([first], 6)
        slots = driver.release(first, keep=most)
        for cached in (driver.aligned(1), driver.aligned(13), most):
            row = driver.admit(prompt, cached=slots[:cached])
            driver.decode([row], 6)
            driver.release(row)
            assert row.output == first.output, f"with {cached} cached tokens"

    def test_a_shared_prefix_serves_rows_that_go_on_differently(self, driver: Driver) -> None:
        head = self.prompt(driver, driver.aligned(12))
        prompts = [head + self.prompt(driver, 5, salt) for salt in (1, 2, 3)]
        expected = [driver.generate(prompt, 4) for prompt in prompts]
        first = driver.admit(head)
        driver.prefill(first)
        slots = driver.release(first, keep=len(head))
        rows = [driver.admit(prompt, cached=slots) for prompt in prompts]
        driver.decode(rows, 4)
        assert [row.output for row in rows] == expected

    def test_a_row_starts_from_what_another_computes_in_the_same_step(self, driver: Driver) -> None:
        prompt = self.prompt(driver, driver.aligned(20))
        expected = driver.generate([*prompt, 5], 3)
        leader = driver.admit([*prompt, 4])
        shared = driver.free_slots[: len(prompt)]  # which the leader is given next
        follower = driver.admit([*prompt, 5], cached=shared)
        driver.step({leader: len(prompt) + 1, follower: 1})
        driver.decode([leader, follower], 2)
        assert follower.output == expected

    def test_a_retracted_row_resumes_where_it_stopped(self, driver: Driver) -> None:
        prompt = self.prompt(driver, 9)
        expected = driver.generate(prompt, 8)
        row = driver.admit(prompt)
        driver.decode([row], 3)
        driver.release(row)
        other = driver.admit(self.prompt(driver, 15, 1))  # overwrites what the row had
        driver.prefill(other)
        resumed = driver.admit(prompt, output=row.output)
        driver.decode([resumed], 5)
        assert resumed.output == expected

    def test_tokens_that_are_forced_count_like_those_that_are_sampled(self, driver: Driver) -> None:
        prompt = self.prompt(driver, 9)
        forced = self.prompt(driver, 4, 1)
        resumed = driver.admit(prompt, output=[*driver.generate(prompt, 2), *forced])
        driver.decode([resumed], 3)
        row, other = driver.admit(prompt), driver.admit(self.prompt(driver, 5, 2))
        driver.decode([row, other], 2)
        driver.append(row, forced)
        driver.decode([row, other], 3)
        assert row.output == resumed.output

    def test_a_rewritten_row_reads_the_other_copy(self, driver: Driver) -> None:
        start = driver.aligned(3)
        end = start + driver.aligned(6)
        prompt = self.prompt(driver, end + 1)
        expected = driver.generate(prompt, 6)
        kept, row = driver.admit(prompt), driver.admit(prompt)
        driver.decode([kept, row], 2)
        driver.rewrite(row, start, kept.slots[start:end])
        other = driver.admit(self.prompt(driver, 30, 1))  # takes the slots that this freed
        driver.step({other: 30, row: row.pending})
        driver.decode([row], 3)
        assert row.output == expected

    def test_the_next_step_may_come_before_the_result_of_the_last(self, driver: Driver) -> None:
        prompts = [self.prompt(driver, 9), self.prompt(driver, 4, 1)]
        expected = [driver.generate(prompt, 8) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        driver.decode_ahead(rows, 8)
        assert [row.output for row in rows] == expected

    # ---------------------------------------------------------------------------------------------- neighbours

    def test_neighbours_in_the_batch_change_nothing(self, driver: Driver) -> None:
        prompts = [self.prompt(driver, length, length) for length in (1, 2, 17, 30)]
        expected = [driver.generate(prompt, 5) for prompt in prompts]
        rows = [driver.admit(prompt) for prompt in prompts]
        driver.decode(rows, 5)
        assert [row.output for row in rows] == expected

    def test_a_prefill_beside_a_decode_changes_neither(self, driver: Driver) -> None:
        prompts = [self.prompt(driver, 8), self.prompt(driver, 24, 1)]
        expected = [driver.generate(prompt, 6) for prompt in prompts]
        early, late = driver.admit(prompts[0]), driver.admit(prompts[1])
        driver.prefill(early)
        driver.step({early: 1, late: 11})
        driver.step({late: 13, early: 1})
        driver.decode([late, early], 3)
        assert early.output == expected[0]
        assert late.output == expected[1][:4]

    def test_a_released_row_leaves_nothing_to_the_next(self, driver: Driver) -> None:
        prompt = self.prompt(driver, 11)
        expected = driver.generate(prompt, 4)
        driver.generate(self.prompt(driver, 40, 1), 3, TokenSampling(seed=1, temperature=5.0, logprobs=2))
        assert driver.generate(prompt, 4) == expected

    def test_a_row_may_be_released_and_given_away_in_one_step(self, driver: Driver) -> None:
        prompts = [self.prompt(driver, 6, salt) for salt in range(3)]
        expected = [driver.generate(prompt, 2) for prompt in prompts]
        outputs = []
        for prompt in prompts:
            row = driver.admit(prompt)
            driver.decode([row], 2)
            driver.release(row)
            outputs.append(row.output)
        assert outputs == expected

    # ------------------------------------------------------------------------------------------------ sampling

    def test_only_rows_whose_last_token_is_computed_are_sampled(self, driver: Driver) -> None:
        rows = [driver.admit(self.prompt(driver, 6, salt)) for salt in range(3)]
        output = driver.step({rows[2]: 6, rows[0]: 5, rows[1]: 6})
        assert output.step == 0
        assert list(output.rows) == [rows[2].row, rows[1].row]
        assert len(output.tokens) == 2
        assert all(0 <= token < driver.loaded.vocab_size for token in output.tokens)

    def test_a_seed_gives_the_same_tokens_in_any_company(self, driver: Driver) -> None:
        prompt, sampling = self.prompt(driver, 7), TokenSampling(seed=11, temperature=1.5)
        expected = driver.generate(prompt, 8, sampling)
        others = [driver.admit(self.prompt(driver, 9, salt), TokenSampling(seed=salt)) for salt in (1, 2)]
        row = driver.admit(prompt, sampling)
        driver.decode([*others, row], 8)
        assert row.output == expected

    def test_logprobs_come_in_the_number_asked(self, driver: Driver) -> None:
        wanted = [-1, 0, 3]
        rows = [
            driver.admit(self.prompt(driver, 5), TokenSampling(seed=0, temperature=0.0, logprobs=k)) for k in wanted
        ]
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
        row = driver.admit(self.prompt(driver, 5))
        output = driver.step({row: 5})
        assert output.logprobs == []
        assert output.prompt_logprobs == []

    def test_prompt_logprobs_cover_each_prompt_token_but_the_first_once(self, driver: Driver) -> None:
        prompt, sampling = self.prompt(driver, 10), TokenSampling(seed=0, temperature=0.0, prompt_logprobs=2)
        whole, cut = driver.admit(prompt, sampling), driver.admit(prompt, sampling)
        driver.prefill(whole)
        driver.prefill(cut, 4)
        driver.decode([whole, cut], 2)
        for row in (whole, cut):
            assert list(row.prompt_logprobs) == list(range(1, 10))
            assert [entry.token for entry in row.prompt_logprobs.values()] == prompt[1:]
            assert all(len(entry.top_ids) == 2 for entry in row.prompt_logprobs.values())

    def test_prompt_logprobs_start_where_they_are_still_wanted(self, driver: Driver) -> None:
        prompt, sampling = self.prompt(driver, 10), TokenSampling(seed=0, temperature=0.0, prompt_logprobs=0)
        row = driver.admit(prompt, sampling, logprobs_from=6)
        driver.prefill(row)
        assert list(row.prompt_logprobs) == [6, 7, 8, 9]

    def test_a_mask_leaves_only_what_it_allows(self, driver: Driver) -> None:
        words = (driver.loaded.vocab_size + 31) // 32
        rows = [driver.admit(self.prompt(driver, 5, salt)) for salt in range(2)]
        masks = {
            row: (1 << token).to_bytes(4 * words, "little")
            for row, token in zip(rows, (driver.loaded.vocab_size - 1, 3), strict=True)
        }
        output = driver.step(dict.fromkeys(rows, 5), masks)
        assert list(output.tokens) == [driver.loaded.vocab_size - 1, 3]

    def test_masks_for_no_row_leave_all_free(self, driver: Driver) -> None:
        prompt = self.prompt(driver, 5)
        expected = driver.generate(prompt, 1)
        row = driver.admit(prompt)
        driver.step({row: 5}, {})
        assert row.output == expected
