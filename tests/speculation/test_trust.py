"""How many tokens are guessed, by how the last guesses fared."""

from __future__ import annotations

import pytest

from sgframe.messages import ints
from sgframe.scheduler.trust import Trust


def trust(*outcomes: tuple[int, int]) -> Trust:
    """After so many guessed and accepted, one after the other."""
    found = Trust(lambda tokens, limit: ints())
    for guessed, accepted in outcomes:
        found.learn(guessed, accepted, known=100)
    return found


@pytest.mark.parametrize(("worth", "length"), [(0.5, 1), (0.25, 2), (1 / 17, 4), (0.51, 1), (0.02, 5)])
def test_at_first_one_guess_in_two_is_thought_right(worth: float, length: int) -> None:
    assert trust().length(worth, known=10) == length


def test_a_guess_is_made_as_long_as_all_up_to_it_are_right_with_the_chance_it_needs() -> None:
    believed = trust()
    believed.chance = 0.9
    assert [believed.length(worth, known=10) for worth in (0.95, 0.9, 0.82, 0.8, 0.5)] == [1, 1, 1, 2, 6]


def test_right_guesses_soon_lead_to_longer_ones() -> None:
    lengths = [trust(*[(4, 4)] * times).length(1 / 17, known=100) for times in range(3)]
    assert lengths == [4, 12, 32]


def test_wrong_guesses_lead_to_shorter_ones_and_then_to_none() -> None:
    lengths = [trust(*[(4, 0)] * times).length(1 / 17, known=100) for times in range(12)]
    assert lengths == [4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0]


def test_only_guesses_up_to_the_first_wrong_one_tell_anything() -> None:
    assert trust((8, 3)).chance == trust((4, 3)).chance
    assert trust((8, 3)).chance == pytest.approx(0.8**4 * 0.5 + (1 - 0.8**4) * 0.75)


def test_no_guess_is_certain() -> None:
    assert trust(*[(16, 16)] * 9).chance == 0.98


def test_who_was_wrong_too_often_may_try_a_single_guess_now_and_then() -> None:
    doubted = trust(*[(1, 0)] * 20)
    assert [doubted.length(1 / 17, known=100 + later) for later in (1, 31, 32, 33)] == [0, 0, 1, 1]
    doubted.learn(1, 0, known=132)
    assert [doubted.length(1 / 17, known=132 + later) for later in (1, 31, 32)] == [0, 0, 1]
