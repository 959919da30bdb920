"""Skeleton of thought: an outline first, then all its points at once (Ning et al., 2024).

The points branch off after the outline and are written side by side; ``join("concat")`` puts them together in order.
"""

from __future__ import annotations

from harness import rows, run_example

import sgframe_dsl as sgf


@sgf.function
def skeleton_of_thought(s: sgf.State, question: str, points: int, max_tokens: int) -> None:
    outline = "".join(rf"{number}\. [A-Z][a-z]{{2,15}}( [a-z-]{{1,15}}){{1,8}}\n" for number in range(1, points + 1))
    s += sgf.user(f"{question} Give {points} points.")
    with s.assistant():
        s += sgf.gen("outline", regex=outline)
        branches = s.fork(points)
        for branch, point in zip(branches, s["outline"].splitlines(), strict=True):
            branch += f"\n{point}. This" + sgf.gen("details", max_tokens=max_tokens, stop="\n") + "\n"
        branches.join("concat")
        s += "\nIn short, it" + sgf.gen("summary", max_tokens=max_tokens, stop=".") + "."


def main(items: int = 10, concurrency: int = 4, points: int = 4, max_tokens: int = 64) -> list[str]:
    questions = [row["turns"][0] for row in rows("vicuna_bench.jsonl")[:items]]
    work = [(question, points, max_tokens) for question in questions]
    states = skeleton_of_thought.run_batch(work, concurrency=concurrency, sampling={"temperature": 0})
    answers = [state.messages()[-1]["content"] for state in states]
    for question, answer in zip(questions, answers, strict=True):
        print(f"{question}\n\n{answer}\n")
    return answers


if __name__ == "__main__":
    run_example(main)
