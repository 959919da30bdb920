"""The speculator ``prompt-lookup``: what came after the last tokens when they occurred before."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sgframe.messages import ints
from sgframe.testing.plugin import check_plugin
from sgframe.testing.speculation import SpeculatorContract
from sgframe_lookup import LookupSettings
from sgframe_lookup.lookup import PromptLookup


class TestContract(SpeculatorContract):
    def make(self) -> PromptLookup:
        return PromptLookup(LookupSettings())


def guesses(tokens: list[int], limit: int = 3, **settings: int) -> list[int]:
    return list(PromptLookup(LookupSettings(**settings)).guesser()(ints(tokens), limit))


def test_the_hook_module_is_sound() -> None:
    assert check_plugin("sgframe_lookup") == []


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 2, 3, 4, 5, 1, 2], [3, 4, 5]),
        ([9, 1, 2, 3, 4, 5, 8, 1, 2], [3, 4, 5]),
        ([1, 2, 3, 1, 2, 4, 9, 1, 2], [4, 9, 1]),  # the last time counts
        ([0, 1, 2, 3, 9, 8, 1, 2, 4, 9, 0, 1, 2], [3, 9, 8]),  # unless more was alike before
        ([7, 1, 2, 3, 4, 8, 9, 1, 2, 3, 4, 5, 0, 7, 1, 2, 3, 4], [5, 0, 7]),  # more than the longest is not asked for
        ([1, 2, 3, 2], []),  # one token alike is too few
        ([1, 2, 3, 4], []),
        ([1], []),
    ],
)
def test_what_followed_the_last_tokens_is_guessed(tokens: list[int], expected: list[int]) -> None:
    assert guesses(tokens) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"), [([7, 7, 7], [7] * 6), ([1, 2, 3, 1, 2, 3], [1, 2, 3] * 2), ([4, 1, 2, 1, 2], [1, 2] * 3)]
)
def test_what_repeats_itself_is_guessed_to_go_on(tokens: list[int], expected: list[int]) -> None:
    assert guesses(tokens, 6) == expected


def test_settings_say_how_much_must_be_alike_and_how_much_is_guessed() -> None:
    assert guesses([1, 2, 3, 2], shortest=1) == [3, 2, 3]
    assert guesses([1, 2, 3, 4, 5, 1, 2], shortest=3) == []
    assert guesses([0, 1, 2, 3, 9, 8, 1, 2, 4, 9, 0, 1, 2], longest=2) == [4, 9, 0]
    assert guesses([1, 2, 3, 4, 5, 1, 2], guesses=1) == [3]


def test_the_longest_is_no_shorter_than_the_shortest() -> None:
    with pytest.raises(ValidationError, match="longest is 4, less than shortest, 5: raise the one or lower the other"):
        LookupSettings(shortest=5)
