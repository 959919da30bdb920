"""How select compares: three methods on tables whose winners can be told by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from scripted_engine import ScriptedEngine

from sgframe_programs.parts import Method, Text
from sgframe_programs.scoring import best, greedy_token, scores
from sgframe_programs.session import Session

QUESTION = "What is the capital of France? "
CAPITAL = {"Paris": [-1.0, -0.5, -0.5, -0.5, -0.5], "Antidisestablishmentarianism": [-9.0, *[-0.01] * 27]}
"""The long word is all but certain once it has begun, so that its mean is the better one."""
ALONE = {"Paris": [-8.0, -0.5, -0.5, -0.5, -0.5], "Antidisestablishmentarianism": [-8.0, *[-0.01] * 27]}


def test_a_long_predictable_choice_has_the_better_mean() -> None:
    mean = scores("token_length_normalized", [], list(CAPITAL.values()))
    assert mean == [pytest.approx(-0.6), pytest.approx(-9.27 / 28)]
    assert best(mean) == 1


def test_the_greedy_walk_goes_where_the_first_token_is_likelier() -> None:
    tokens = [list(word.encode()) for word in CAPITAL]
    assert scores("greedy_token", tokens, list(CAPITAL.values())) == [1.0, 0.0]


def test_against_their_own_likelihood_the_prompts_word_wins() -> None:
    values = scores("unconditional_normalized", [], list(CAPITAL.values()), list(ALONE.values()))
    assert values == [pytest.approx(7.0), pytest.approx(-1.0)]


@pytest.mark.parametrize(
    ("method", "winner"),
    [
        ("token_length_normalized", "Antidisestablishmentarianism"),
        ("greedy_token", "Paris"),
        ("unconditional_normalized", "Paris"),
    ],
)
async def test_the_capital_of_france_by_each_method(method: Method, winner: str) -> None:
    engine = ScriptedEngine()
    engine.logprob = table_logprob
    session = Session(engine)  # type: ignore[arg-type]
    session.open(0)
    selected = await session.select(0, [Text(QUESTION)], list(CAPITAL), method)
    assert list(CAPITAL)[selected.index] == winner
    assert (selected.unconditional is not None) == (method == "unconditional_normalized")


def table_logprob(before: bytes, token: int) -> float:
    text = before.decode()
    table = CAPITAL if text.startswith(QUESTION) else ALONE
    said = text.removeprefix(QUESTION) + chr(token)
    word = next(word for word in table if word.startswith(said))
    return table[word][len(said) - 1]


A, AB = [ord("a")], [ord("a"), ord("b")]


@pytest.mark.parametrize(
    ("method", "a", "ab", "alone", "winner"),
    [
        ("token_length_normalized", -1.0, -2.0, (), "a"),
        ("token_length_normalized", -1.0, -0.5, (), "ab"),
        ("greedy_token", -1.0, math.log(0.4), (), "a"),
        ("greedy_token", -1.0, math.log(0.6), (), "ab"),
        ("unconditional_normalized", -1.0, -2.0, ([-3.0], [-3.0, -1.0]), "a"),
        ("unconditional_normalized", -1.0, -2.0, ([-3.0], [-3.0, -4.0]), "ab"),
    ],
)
def test_a_choice_and_one_that_goes_on_from_it_can_both_win(
    method: Method, a: float, ab: float, alone: Sequence[Sequence[float]], winner: str
) -> None:
    values = scores(method, [A, AB], [[a], [a, ab]], alone)
    assert ["a", "ab"][best(values)] == winner


@pytest.mark.parametrize(("second", "third", "stayed"), [(0.3, 0.4, [1.0, 1.0, 2.0]), (0.3, 0.34, [2.0, 1.0, 1.0])])
def test_a_greedy_walk_ends_if_that_is_likelier_than_any_way_on(
    second: float, third: float, stayed: list[float]
) -> None:
    rows = [[-1.0], [-1.0, math.log(second)], [-1.0, math.log(third)]]
    assert greedy_token([[1], [1, 2], [1, 3]], rows) == stayed  # the text goes on as none of them by 0.3, then 0.36


def test_a_greedy_walk_follows_one_token_at_a_time() -> None:
    by_path: Mapping[tuple[int, ...], list[float]] = {
        (1, 2, 3): [-1.0, math.log(0.6), -9.0],
        (1, 2, 4): [-1.0, math.log(0.6), -8.0],
        (1, 5, 6): [-1.0, math.log(0.4), -0.1],
        (7, 8, 9): [-1.5, -0.1, -0.1],
    }
    assert greedy_token(list(map(list, by_path)), list(by_path.values())) == [2.0, 3.0, 1.0, 0.0]


def test_choices_of_the_same_tokens_are_equal_and_the_first_wins() -> None:
    values = greedy_token([[1, 2], [1, 2]], [[-1.0, -1.0]] * 2)
    assert values == [3.0, 3.0]
    assert best(values) == 0


def test_an_impossible_choice_never_wins_however_impossible_alone() -> None:
    values = scores("unconditional_normalized", [], [[-math.inf], [-5.0]], [[-math.inf], [-1.0]])
    assert values == [-math.inf, -4.0]
