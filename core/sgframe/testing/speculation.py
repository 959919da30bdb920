"""What a speculator must get right, and an executor of its guesses if the backend ``verifies`` them. Knows no device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import pytest

from sgframe.interfaces.speculator import Speculator
from sgframe.messages import ints
from sgframe.sampling import TokenSampling
from sgframe.testing.contract import Contract
from sgframe.testing.driver import GREEDY, Driver, DriverRow

DRAWN = TokenSampling(seed=5, temperature=1.0, top_p=0.95)
PENALISED = TokenSampling(seed=0, temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.7, presence_penalty=0.4)


class SpeculationContract:
    """With guesses, whatever they are, a row comes to the tokens that it would have come to without.

    Part of BackendContract, for backends that ``verifies``; by itself a subclass gives the fixture ``verifier``, a Driver.
    """

    @pytest.mark.parametrize("sampling", [GREEDY, DRAWN, PENALISED], ids=["greedy", "drawn", "penalised"])
    @pytest.mark.parametrize("right", [0, 2, 4])
    def test_right_guesses_are_kept_up_to_the_first_wrong_one(
        self, verifier: Driver, right: int, sampling: TokenSampling
    ) -> None:
        prompt = verifier.prompt(9)
        expected = verifier.generate(prompt, 10, sampling)
        row = self._begin(verifier, prompt, sampling)
        output = verifier.step({row: 1}, guesses={row: self._guesses(verifier, expected[1:5], right)})
        assert list(output.rows) == [row.row] * (right + 1)
        assert row.output == expected[: right + 2]
        verifier.decode([row], 8 - right)
        assert row.output == expected

    def test_guesses_may_follow_guesses(self, verifier: Driver) -> None:
        prompt = verifier.prompt(7)
        expected = verifier.generate(prompt, 14)
        row = self._begin(verifier, prompt)
        for right in (3, 0, 2, 0, 1):
            known = len(row.output)
            verifier.step({row: 1}, guesses={row: self._guesses(verifier, expected[known : known + 3], right)})
        assert row.output == expected[:12]
        verifier.decode([row], 2)
        assert row.output == expected

    def test_guesses_of_some_rows_change_nothing_for_the_others(self, verifier: Driver) -> None:
        prompts = [verifier.prompt(5 + salt, salt) for salt in range(4)]
        expected = [verifier.generate(prompt, 6) for prompt in prompts]
        half, plain, right = (self._begin(verifier, prompt) for prompt in prompts[:3])
        begun = verifier.admit(prompts[3])
        guesses = {
            right: self._guesses(verifier, expected[2][1:3], 2),
            half: self._guesses(verifier, expected[0][1:3], 1),
        }
        output = verifier.step({half: 1, begun: 8, plain: 1, right: 1}, guesses=guesses)
        assert list(output.rows) == [half.row, half.row, begun.row, plain.row, *[right.row] * 3]
        verifier.decode([half], 1)
        verifier.decode([begun, half, plain], 2)
        verifier.decode([plain, right, begun], 2)
        assert [half.output, plain.output, right.output] == expected[:3]
        assert begun.output == expected[3][:5]

    def test_guesses_may_follow_a_token_that_is_still_to_come(self, verifier: Driver) -> None:
        prompt = verifier.prompt(9)
        expected = verifier.generate(prompt, 8)
        row, other = verifier.admit(prompt), verifier.admit(verifier.prompt(5, 1))
        verifier.step_ahead({other: 5, row: 9})
        verifier.step_ahead({row: 1, other: 1}, guesses={row: self._guesses(verifier, expected[1:5], 2)})
        verifier.step_ahead({other: 1})
        verifier.catch_up()
        verifier.decode_ahead([row, other], 4)
        assert row.output == expected

    def test_a_row_may_end_with_its_guesses_in_flight(self, verifier: Driver) -> None:
        prompts = [verifier.prompt(6), verifier.prompt(8, 1)]
        expected = [verifier.generate(prompt, 3) for prompt in prompts]
        row = self._begin(verifier, prompts[0])
        verifier.step_ahead({row: 1}, guesses={row: self._guesses(verifier, expected[0][1:3], 1)})
        verifier.release(row)
        begun = verifier.admit(prompts[1])
        verifier.step_ahead({begun: 8})
        verifier.decode_ahead([begun], 2)
        assert begun.output == expected[1]

    def test_what_is_kept_of_a_row_is_without_its_wrong_guesses(self, verifier: Driver) -> None:
        prompt = verifier.prompt(verifier.aligned(12))
        expected = verifier.generate(prompt, 6)
        row = self._begin(verifier, prompt)
        verifier.step({row: 1}, guesses={row: self._guesses(verifier, expected[1:5], 1)})
        verifier.decode([row], 2)
        resumed = verifier.admit(prompt, output=expected[:5], cached=row.slots[: len(prompt)])
        verifier.decode([row, resumed], 1)
        assert (row.output, resumed.output) == (expected, expected)

    def test_logprobs_come_for_the_tokens_that_are_kept(self, verifier: Driver) -> None:
        prompts = [verifier.prompt(9), verifier.prompt(5, 1)]
        sampling = TokenSampling(seed=0, temperature=0.0, logprobs=2)
        known, row = verifier.admit(prompts[0], sampling), verifier.admit(prompts[0], sampling)
        other = verifier.admit(prompts[1])
        verifier.decode([known], 6)
        verifier.prefill(row)
        verifier.prefill(other)
        guesses = {other: [0], row: self._guesses(verifier, known.output[1:5], 2)}
        output = verifier.step({other: 1, row: 1}, guesses=guesses)
        assert len(output.logprobs) == len(output.tokens)
        verifier.decode([row], 2)
        assert [entry.token for entry in row.logprobs if entry] == known.output
        for mine, alone in zip(row.logprobs, known.logprobs, strict=True):
            assert mine is not None
            assert alone is not None
            assert mine.top_ids == alone.top_ids
            assert mine.top_logprobs == pytest.approx(alone.top_logprobs, abs=1e-3)
        assert set(other.logprobs) <= {None}

    def _begin(self, verifier: Driver, prompt: Sequence[int], sampling: TokenSampling = GREEDY) -> DriverRow:
        """A row that knows its first token."""
        row = verifier.admit(prompt, sampling)
        verifier.prefill(row)
        return row

    def _guesses(self, verifier: Driver, expected: Sequence[int], right: int) -> list[int]:
        """As many as ``expected``, of which the first ``right`` are so, and the next is not."""
        wrong = [(token + 1) % verifier.loaded.vocab_size for token in expected[right:]]
        return [*expected[:right], *wrong]


class SpeculatorContract(Contract):
    """For a speculator's author: ``class TestMine(SpeculatorContract)`` with ``make``. It asks for no guess to be right."""

    REPEATING: ClassVar = [5, 9, 2, 7, 7, 3] * 7
    VARIED: ClassVar = [(i * i * 31 + i * 17) % 97 for i in range(42)]

    @abstractmethod
    def make(self) -> Speculator:
        """A fresh one."""

    def test_it_gives_no_more_than_it_is_asked_for(self) -> None:
        guesser = self.make().guesser()
        for limit in (1, 2, 40):
            for known in range(1, len(self.REPEATING)):
                assert len(guesser(ints(self.REPEATING[:known]), limit)) <= limit

    def test_it_gives_token_ids_and_leaves_those_it_is_shown_alone(self) -> None:
        guesser, shown = self.make().guesser(), ints()
        for token in self.REPEATING:
            shown.append(token)
            before = list(shown)
            assert all(isinstance(guess, int) and guess >= 0 for guess in guesser(shown, 8))
            assert list(shown) == before

    def test_it_guesses_nothing_if_it_says_so(self) -> None:
        speculator = self.make()
        guessed = self._guesses(self.REPEATING)
        assert speculator.guesses or not any(guessed)

    @pytest.mark.parametrize("tokens", [REPEATING, VARIED], ids=["repeating", "varied"])
    def test_the_same_calls_give_the_same_guesses(self, tokens: Sequence[int]) -> None:
        assert self._guesses(tokens) == self._guesses(tokens)

    def test_requests_do_not_see_each_other(self) -> None:
        speculator = self.make()
        first, second = speculator.guesser(), speculator.guesser()
        together: tuple[list[list[int]], list[list[int]]] = ([], [])
        for known in range(1, len(self.VARIED), 3):
            together[0].append(list(first(ints(self.VARIED[:known]), 4)))
            together[1].append(list(second(ints(self.REPEATING[:known]), 4)))
        assert together[0] == self._guesses(self.VARIED, 3)
        assert together[1] == self._guesses(self.REPEATING, 3)

    def _guesses(self, tokens: Sequence[int], step: int = 1) -> list[list[int]]:
        """What one request is told as it grows to ``tokens``."""
        guesser = self.make().guesser()
        return [list(guesser(ints(tokens[:known]), 4)) for known in range(1, len(tokens), step)]
