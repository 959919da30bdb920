"""What every executor must get right of sampling parameters, whatever the logits are. Knows no device."""

from __future__ import annotations

from typing import Any

import pytest

from sgframe.sampling import TokenSampling
from sgframe.testing.driver import Driver
from sgframe.testing.outputs import asking

LEVEL = 100.0
"""A temperature at which tokens are about as likely as each other."""
FAVOURED = 5
"""A token that the tests give a bias, so that they know what a greedy row takes."""


def draws(driver: Driver, **sampling: Any) -> list[int]:
    """What eight seeds draw from the same logits."""
    rows = [driver.admit(driver.prompt(5), TokenSampling(seed=seed, **sampling)) for seed in range(8)]
    driver.decode(rows, 1)
    return [row.output[0] for row in rows]


def favouring(driver: Driver, bias: float, **sampling: Any) -> list[int]:
    """Five greedy tokens where FAVOURED is ``bias`` likelier than the model has it. It is in the prompt already."""
    greedy = TokenSampling(seed=0, temperature=0.0, logit_bias={FAVOURED: bias}, **sampling)
    return driver.generate([*driver.prompt(5), FAVOURED], 5, greedy)


class SamplingContract:
    """Each sampling parameter does what TokenSampling says, and a draw depends on seed and position alone.

    For a device that honours no parameters this is left out. The model's logits lie within 40 of each other, those that
    matter; a model of random weights does. Part of BackendContract, and for its spec; by itself a subclass gives the
    fixture ``driver``.
    """

    # -------------------------------------------------------------------------------------------- seed and position

    def test_seeds_draw_different_tokens(self, driver: Driver) -> None:
        assert len(set(draws(driver, temperature=LEVEL))) > 1

    def test_positions_draw_differently(self, driver: Driver) -> None:
        row = driver.admit(driver.prompt(5), TokenSampling(seed=1, temperature=LEVEL, top_k=2, logprobs=2))
        driver.decode([row], 12)
        entries = [entry for entry in row.logprobs if entry is not None]
        assert {entry.token == entry.top_ids[0] for entry in entries} == {True, False}, "always the same of two by rank"
        assert {entry.token == min(entry.top_ids) for entry in entries} == {True, False}, "always the same of two by id"

    def test_a_seed_gives_the_same_tokens_in_any_company(self, driver: Driver) -> None:
        prompt, sampling = driver.prompt(7), TokenSampling(seed=11, temperature=1.5)
        expected = driver.generate(prompt, 8, sampling)
        others = [driver.admit(driver.prompt(9, salt), TokenSampling(seed=salt)) for salt in (1, 2)]
        row = driver.admit(prompt, sampling)
        driver.decode([*others, row], 8)
        assert row.output == expected

    def test_a_seed_gives_the_same_tokens_however_a_prefill_is_cut(self, driver: Driver) -> None:
        prompt, sampling = driver.prompt(13), TokenSampling(seed=11, temperature=1.5)
        expected = driver.generate(prompt, 4, sampling)
        row = driver.admit(prompt, sampling)
        driver.prefill(row, 3)
        driver.decode([row], 3)
        assert row.output == expected

    def test_a_seed_gives_the_same_tokens_from_a_cached_prefix(self, driver: Driver) -> None:
        cached = driver.aligned(13)
        prompt, sampling = driver.prompt(cached + 1), TokenSampling(seed=11, temperature=1.5)
        first = driver.admit(prompt, sampling)
        driver.decode([first], 4)
        row = driver.admit(prompt, sampling, cached=driver.release(first, keep=cached))
        driver.decode([row], 4)
        assert row.output == first.output

    def test_a_seed_gives_the_same_tokens_after_a_retraction(self, driver: Driver) -> None:
        prompt, sampling = driver.prompt(7), TokenSampling(seed=11, temperature=1.5, frequency_penalty=1.0)
        expected = driver.generate(prompt, 8, sampling)
        resumed = driver.admit(prompt, sampling, output=expected[:4])
        driver.decode([resumed], 4)
        assert resumed.output == expected

    def test_a_draw_counts_its_position_from_the_start_of_the_prompt(self, driver: Driver) -> None:
        prompt, sampling = driver.prompt(7), TokenSampling(seed=11, temperature=1.5)
        output = driver.generate(prompt, 8, sampling)
        assert driver.generate([*prompt, *output[:4]], 4, sampling) == output[4:]

    def test_a_seed_gives_the_same_tokens_ahead_of_results(self, driver: Driver) -> None:
        prompts, sampling = [driver.prompt(7), driver.prompt(4, 1)], TokenSampling(11, 1.5, presence_penalty=2.0)
        expected = [driver.generate(prompt, 6, sampling) for prompt in prompts]
        rows = [driver.admit(prompt, sampling) for prompt in prompts]
        driver.decode_ahead(rows, 6)
        assert [row.output for row in rows] == expected

    # ------------------------------------------------------------------------------------------------- what is left

    @pytest.mark.parametrize(
        "sampling",
        [
            {"temperature": 1e-6},
            {"temperature": LEVEL, "top_k": 1},
            {"temperature": LEVEL, "top_p": 1e-6},
            {"temperature": LEVEL, "min_p": 1.0},
        ],
        ids=["temperature near 0", "top_k 1", "top_p near 0", "min_p 1"],
    )
    def test_what_leaves_one_token_is_greedy(self, driver: Driver, sampling: dict[str, Any]) -> None:
        greedy = driver.generate(driver.prompt(5), 1)
        assert draws(driver, **sampling) == greedy * 8

    def test_top_k_leaves_the_k_likeliest(self, driver: Driver) -> None:
        row = driver.admit(driver.prompt(5), asking(logprobs=3))
        driver.prefill(row)
        (entry,) = row.logprobs
        assert entry is not None
        driver.release(row)
        drawn = set(draws(driver, temperature=LEVEL, top_k=3))
        assert drawn <= set(entry.top_ids)
        assert len(drawn) > 1

    def test_a_draw_obeys_a_mask(self, driver: Driver) -> None:
        allowed = {3, 40, 90}
        rows = [driver.admit(driver.prompt(5), TokenSampling(seed=seed, temperature=LEVEL)) for seed in range(8)]
        output = driver.step(dict.fromkeys(rows, 5), dict.fromkeys(rows, driver.mask(*allowed)))
        assert set(output.tokens) <= allowed
        assert len(set(output.tokens)) > 1

    # ------------------------------------------------------------------------------------------- bias and penalties

    def test_a_bias_is_added(self, driver: Driver) -> None:
        (greedy,) = driver.generate(driver.prompt(5), 1)
        other = (greedy + 1) % driver.loaded.vocab_size
        assert driver.generate(driver.prompt(5), 1, TokenSampling(0, 0.0, logit_bias={other: 100.0})) == [other]
        assert driver.generate(driver.prompt(5), 1, TokenSampling(0, 0.0, logit_bias={greedy: -100.0})) != [greedy]

    @pytest.mark.parametrize("penalty", ["presence_penalty", "frequency_penalty"])
    def test_what_was_written_is_penalised_and_the_prompt_is_not(self, driver: Driver, penalty: str) -> None:
        first, *others = favouring(driver, 50.0, **{penalty: 100.0})
        assert first == FAVOURED
        assert FAVOURED not in others

    def test_presence_counts_once(self, driver: Driver) -> None:
        assert favouring(driver, 100.0, presence_penalty=60.0) == [FAVOURED] * 5

    def test_frequency_counts_each_time(self, driver: Driver) -> None:
        first, second, *others = favouring(driver, 100.0, frequency_penalty=60.0)
        assert (first, second) == (FAVOURED, FAVOURED)
        assert others != [FAVOURED] * 3

    def test_repetition_counts_prompt_and_output_alike(self, driver: Driver) -> None:
        known = driver.prompt(30)

        def next_token(penalty: float, prompt_len: int) -> int:
            sampling = TokenSampling(seed=0, temperature=0.0, repetition_penalty=penalty)
            row = driver.admit(known[:prompt_len], sampling, output=known[prompt_len:])
            driver.prefill(row)
            return row.tokens[-1]

        shunned, sought = next_token(1e6, 30), next_token(1e-6, 30)
        assert shunned not in known
        assert sought in known
        assert (next_token(1e6, 1), next_token(1e-6, 1)) == (shunned, sought)

    # ----------------------------------------------------------------------------------------------------- logprobs

    def test_logprobs_are_the_model_s_own(self, driver: Driver) -> None:
        prompt = driver.prompt(6)
        shaped = TokenSampling(
            seed=3, temperature=LEVEL, top_k=9, logit_bias={FAVOURED: 9.0}, repetition_penalty=1.5, logprobs=2
        )
        self.agree(driver, prompt, shaped, 6)

    def test_a_long_output_is_computed_like_a_prompt(self, driver: Driver) -> None:
        self.agree(driver, driver.prompt(4), asking(logprobs=1), 100)

    def agree(self, driver: Driver, prompt: list[int], sampling: TokenSampling, count: int) -> None:
        """The logprobs of ``count`` tokens of output are those of the same tokens in a prompt."""
        row = driver.admit(prompt, sampling)
        driver.decode([row], count)
        again = driver.admit([*prompt, *row.output], asking(prompt_logprobs=sampling.logprobs))
        driver.prefill(again)
        for index, entry in enumerate(row.logprobs, len(prompt)):
            assert entry is not None
            right = again.prompt_logprobs[index]
            assert entry.token == right.token
            assert [entry.logprob, *entry.top_logprobs] == pytest.approx([right.logprob, *right.top_logprobs], abs=1e-3)
