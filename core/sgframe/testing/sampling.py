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


def draws(sampler: Driver, **sampling: Any) -> list[int]:
    """What eight seeds draw from the same logits."""
    rows = [sampler.admit(sampler.prompt(5), TokenSampling(seed=seed, **sampling)) for seed in range(8)]
    sampler.decode(rows, 1)
    return [row.output[0] for row in rows]


def favouring(sampler: Driver, bias: float, **sampling: Any) -> list[int]:
    """Five greedy tokens where FAVOURED is ``bias`` likelier than the model has it. It is in the prompt already."""
    greedy = TokenSampling(seed=0, temperature=0.0, logit_bias={FAVOURED: bias}, **sampling)
    return sampler.generate([*sampler.prompt(5), FAVOURED], 5, greedy)


class SamplingContract:
    """Each sampling parameter does what TokenSampling says, and a draw depends on seed and position alone.

    The model's logits lie within 40 of each other, those that matter; a model of random weights does. Part of
    BackendContract, for backends that draw; by itself a subclass gives the fixture ``sampler``, a Driver.
    """

    # -------------------------------------------------------------------------------------------- seed and position

    def test_seeds_draw_different_tokens(self, sampler: Driver) -> None:
        assert len(set(draws(sampler, temperature=LEVEL))) > 1

    def test_positions_draw_differently(self, sampler: Driver) -> None:
        row = sampler.admit(sampler.prompt(5), TokenSampling(seed=1, temperature=LEVEL, top_k=2, logprobs=2))
        sampler.decode([row], 12)
        entries = [entry for entry in row.logprobs if entry is not None]
        assert {entry.token == entry.top_ids[0] for entry in entries} == {True, False}, "always the same of two by rank"
        assert {entry.token == min(entry.top_ids) for entry in entries} == {True, False}, "always the same of two by id"

    def test_a_seed_gives_the_same_tokens_in_any_company(self, sampler: Driver) -> None:
        prompt, sampling = sampler.prompt(7), TokenSampling(seed=11, temperature=1.5)
        expected = sampler.generate(prompt, 8, sampling)
        others = [sampler.admit(sampler.prompt(9, salt), TokenSampling(seed=salt)) for salt in (1, 2)]
        row = sampler.admit(prompt, sampling)
        sampler.decode([*others, row], 8)
        assert row.output == expected

    def test_a_seed_gives_the_same_tokens_however_a_prefill_is_cut(self, sampler: Driver) -> None:
        prompt, sampling = sampler.prompt(13), TokenSampling(seed=11, temperature=1.5)
        expected = sampler.generate(prompt, 4, sampling)
        row = sampler.admit(prompt, sampling)
        sampler.prefill(row, 3)
        sampler.decode([row], 3)
        assert row.output == expected

    def test_a_seed_gives_the_same_tokens_from_a_cached_prefix(self, sampler: Driver) -> None:
        cached = sampler.aligned(13)
        prompt, sampling = sampler.prompt(cached + 1), TokenSampling(seed=11, temperature=1.5)
        first = sampler.admit(prompt, sampling)
        sampler.decode([first], 4)
        row = sampler.admit(prompt, sampling, cached=sampler.release(first, keep=cached))
        sampler.decode([row], 4)
        assert row.output == first.output

    def test_a_seed_gives_the_same_tokens_after_a_retraction(self, sampler: Driver) -> None:
        prompt, sampling = sampler.prompt(7), TokenSampling(seed=11, temperature=1.5, frequency_penalty=1.0)
        expected = sampler.generate(prompt, 8, sampling)
        resumed = sampler.admit(prompt, sampling, output=expected[:4])
        sampler.decode([resumed], 4)
        assert resumed.output == expected

    def test_a_draw_counts_its_position_from_the_start_of_the_prompt(self, sampler: Driver) -> None:
        prompt, sampling = sampler.prompt(7), TokenSampling(seed=11, temperature=1.5)
        output = sampler.generate(prompt, 8, sampling)
        assert sampler.generate([*prompt, *output[:4]], 4, sampling) == output[4:]

    def test_a_seed_gives_the_same_tokens_ahead_of_results(self, sampler: Driver) -> None:
        prompts, sampling = [sampler.prompt(7), sampler.prompt(4, 1)], TokenSampling(11, 1.5, presence_penalty=2.0)
        expected = [sampler.generate(prompt, 6, sampling) for prompt in prompts]
        rows = [sampler.admit(prompt, sampling) for prompt in prompts]
        sampler.decode_ahead(rows, 6)
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
    def test_what_leaves_one_token_is_greedy(self, sampler: Driver, sampling: dict[str, Any]) -> None:
        greedy = sampler.generate(sampler.prompt(5), 1)
        assert draws(sampler, **sampling) == greedy * 8

    def test_top_k_leaves_the_k_likeliest(self, sampler: Driver) -> None:
        row = sampler.admit(sampler.prompt(5), asking(logprobs=3))
        sampler.prefill(row)
        (entry,) = row.logprobs
        assert entry is not None
        sampler.release(row)
        drawn = set(draws(sampler, temperature=LEVEL, top_k=3))
        assert drawn <= set(entry.top_ids)
        assert len(drawn) > 1

    def test_a_draw_obeys_a_mask(self, sampler: Driver) -> None:
        allowed = {3, 40, 90}
        rows = [sampler.admit(sampler.prompt(5), TokenSampling(seed=seed, temperature=LEVEL)) for seed in range(8)]
        output = sampler.step(dict.fromkeys(rows, 5), dict.fromkeys(rows, sampler.mask(*allowed)))
        assert set(output.tokens) <= allowed
        assert len(set(output.tokens)) > 1

    # ------------------------------------------------------------------------------------------- bias and penalties

    def test_a_bias_is_added(self, sampler: Driver) -> None:
        (greedy,) = sampler.generate(sampler.prompt(5), 1)
        other = (greedy + 1) % sampler.loaded.vocab_size
        assert sampler.generate(sampler.prompt(5), 1, TokenSampling(0, 0.0, logit_bias={other: 100.0})) == [other]
        assert sampler.generate(sampler.prompt(5), 1, TokenSampling(0, 0.0, logit_bias={greedy: -100.0})) != [greedy]

    @pytest.mark.parametrize("penalty", ["presence_penalty", "frequency_penalty"])
    def test_what_was_written_is_penalised_and_the_prompt_is_not(self, sampler: Driver, penalty: str) -> None:
        first, *others = favouring(sampler, 50.0, **{penalty: 100.0})
        assert first == FAVOURED
        assert FAVOURED not in others

    def test_presence_counts_once(self, sampler: Driver) -> None:
        assert favouring(sampler, 100.0, presence_penalty=60.0) == [FAVOURED] * 5

    def test_frequency_counts_each_time(self, sampler: Driver) -> None:
        first, second, *others = favouring(sampler, 100.0, frequency_penalty=60.0)
        assert (first, second) == (FAVOURED, FAVOURED)
        assert others != [FAVOURED] * 3

    def test_what_was_written_before_a_retraction_counts(self, sampler: Driver) -> None:
        once = TokenSampling(seed=0, temperature=0.0, presence_penalty=100.0, logit_bias={FAVOURED: 50.0})
        expected = sampler.generate(sampler.prompt(7), 5, once)
        resumed = sampler.admit(sampler.prompt(7), once, output=expected[:2])
        sampler.decode([resumed], 3)
        assert FAVOURED in expected[:2]
        assert resumed.output == expected

    def test_repetition_counts_prompt_and_output_alike(self, sampler: Driver) -> None:
        known = sampler.prompt(30)

        def next_token(penalty: float, prompt_len: int) -> int:
            sampling = TokenSampling(seed=0, temperature=0.0, repetition_penalty=penalty)
            row = sampler.admit(known[:prompt_len], sampling, output=known[prompt_len:])
            sampler.prefill(row)
            return row.tokens[-1]

        shunned, sought = next_token(1e6, 30), next_token(1e-6, 30)
        assert shunned not in known
        assert sought in known
        assert (next_token(1e6, 1), next_token(1e-6, 1)) == (shunned, sought)

    # ----------------------------------------------------------------------------------------------------- logprobs

    def test_logprobs_are_the_model_s_own(self, sampler: Driver) -> None:
        prompt = sampler.prompt(6)
        shaped = TokenSampling(
            seed=3, temperature=LEVEL, top_k=9, logit_bias={FAVOURED: 9.0}, repetition_penalty=1.5, logprobs=2
        )
        self.agree(sampler, prompt, shaped, 6)

    def test_a_long_output_is_computed_like_a_prompt(self, sampler: Driver) -> None:
        self.agree(sampler, sampler.prompt(4), asking(logprobs=1), 100)

    def agree(self, sampler: Driver, prompt: list[int], sampling: TokenSampling, count: int) -> None:
        """The logprobs of ``count`` tokens of output are those of the same tokens in a prompt."""
        row = sampler.admit(prompt, sampling)
        sampler.decode([row], count)
        again = sampler.admit([*prompt, *row.output], asking(prompt_logprobs=sampling.logprobs))
        sampler.prefill(again)
        for index, entry in enumerate(row.logprobs, len(prompt)):
            assert entry is not None
            right = again.prompt_logprobs[index]
            assert entry.token == right.token
            assert [entry.logprob, *entry.top_logprobs] == pytest.approx([right.logprob, *right.top_logprobs], abs=1e-3)
