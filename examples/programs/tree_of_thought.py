"""Tree of thoughts: the game of 24, step by step, each the most promising of several (Yao et al., 2023).

Branches propose a step and say what they think of it; the tree grows on from the best, the others are let go of. The
grammar keeps to steps that the numbers allow.
"""

from __future__ import annotations

from itertools import permutations

from harness import rows, run_example

import sgframe_dsl as sgf

GAMES = """Make 24 of four numbers, by three steps.

4 4 6 8
4 + 8 = 12 (left: 4 6 12) likely
6 - 4 = 2 (left: 2 12) likely
2 * 12 = 24 (left: 24) likely

1 2 9 12
1 * 2 = 2 (left: 2 9 12) likely
9 * 12 = 108 (left: 2 108) impossible
108 / 2 = 54 (left: 54) impossible

2 9 10 12
12 * 2 = 24 (left: 9 10 24) likely
10 - 9 = 1 (left: 1 24) likely
24 * 1 = 24 (left: 24) likely

"""


@sgf.function
def game_of_24(s: sgf.State, numbers: tuple[int, ...], width: int) -> list[str]:
    s += GAMES + words(numbers) + "\n"
    taken = []
    while len(numbers) > 1:
        steps = possible_steps(numbers)
        branches = s.fork(width)
        for seed, branch in enumerate(branches):
            branch += sgf.gen("step", choices=list(steps), seed=seed)
            branch += sgf.select("verdict", [" likely", " impossible"]) + "\n"
        branches.select(by=promise)
        taken.append(s["step"])
        numbers = steps[s["step"]]
    return taken


def promise(branch: sgf.State) -> float:
    scores: dict[str, float] = branch.meta("verdict").scores
    return scores[" likely"] - scores[" impossible"]


def possible_steps(numbers: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """What can be done with two of ``numbers``, and what is left then."""
    steps = {}
    for a, b, *rest in permutations(numbers):
        results = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b and a % b == 0 else -1}
        for sign, result in results.items():
            if result >= 0:
                left = tuple(sorted((result, *rest)))
                steps[f"{a} {sign} {b} = {result} (left: {words(left)})"] = left
    return steps


def words(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))


def main(items: int = 10, concurrency: int = 4, width: int = 5) -> list[list[str]]:
    games = [tuple(map(int, row["numbers"].split())) for row in rows("game_of_24.csv")[:items]]
    states = game_of_24.run_batch([(game, width) for game in games], concurrency=concurrency)
    answers: list[list[str]] = [state.result for state in states]
    for game, steps in zip(games, answers, strict=True):
        print(f"{words(game)}: {', '.join(steps)}")
    print(f"solved: {sum(steps[-1].endswith('(left: 24)') for steps in answers)} of {len(games)}")
    return answers


if __name__ == "__main__":
    run_example(main)
