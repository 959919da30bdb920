"""The speculator contract catches faults: each speculator here has one, and fails the case named beside it and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contract_cases import cases_of, failed_cases

from sgframe.interfaces.speculator import Guesser, Speculator
from sgframe.messages import Ints, ints
from sgframe.testing import SpeculatorContract


class Sound(Speculator):
    """Guesses that the last token comes again."""

    def guesser(self) -> Guesser:
        return self.guess

    def guess(self, tokens: Ints, limit: int) -> Ints:
        return tokens[-1:] * min(3, limit)


class GivesMoreThanItIsAskedFor(Sound):
    def guess(self, tokens: Ints, limit: int) -> Ints:
        return tokens[-1:] * 3


class GivesWhatIsNoToken(Sound):
    def guess(self, tokens: Ints, limit: int) -> Ints:
        return ints([tokens[-1] - 5])


class WritesIntoWhatItIsShown(Sound):
    def guess(self, tokens: Ints, limit: int) -> Ints:
        guesses = super().guess(tokens, limit)
        tokens.append(0)
        return guesses


class GuessesAlthoughItSaysNot(Sound):
    guesses = False


class RemembersAcrossSpeculators(Sound):
    calls = 0

    def guess(self, tokens: Ints, limit: int) -> Ints:
        RemembersAcrossSpeculators.calls += 1
        return ints([RemembersAcrossSpeculators.calls])


class LearnsFromOtherRequests(Sound):
    last = 0

    def guess(self, tokens: Ints, limit: int) -> Ints:
        learnt, self.last = self.last, tokens[-1]
        return ints([learnt])


MUTANTS: dict[type[Sound], set[str]] = {
    GivesMoreThanItIsAskedFor: {"test_it_gives_no_more_than_it_is_asked_for"},
    GivesWhatIsNoToken: {"test_it_gives_token_ids_and_leaves_those_it_is_shown_alone"},
    WritesIntoWhatItIsShown: {"test_it_gives_token_ids_and_leaves_those_it_is_shown_alone"},
    GuessesAlthoughItSaysNot: {"test_it_guesses_nothing_if_it_says_so"},
    RemembersAcrossSpeculators: {
        "test_requests_do_not_see_each_other",
        "test_the_same_calls_give_the_same_guesses",
    },
    LearnsFromOtherRequests: {"test_requests_do_not_see_each_other"},
}


class Contract(SpeculatorContract):
    def __init__(self, kind: Callable[[], Speculator]) -> None:
        self.kind = kind

    def make(self) -> Speculator:
        return self.kind()


def failing(kind: type[Sound]) -> set[str]:
    return failed_cases(Contract(kind), lambda names: dict[str, Any]())


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_case_and_no_other(kind: type[Sound]) -> None:
    assert failing(kind) == MUTANTS[kind]


def test_every_case_catches_a_fault() -> None:
    assert set(cases_of(SpeculatorContract)) == set().union(*MUTANTS.values())


def test_a_sound_speculator_fails_nothing() -> None:
    assert failing(Sound) == set()
