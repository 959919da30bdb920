"""MMLU, 5-shot: questions of four subjects, answered by the likeliest letter (Hendrycks et al., 2021).

The questions of a subject have its five worked examples in common; ``select`` weighs the letters in one trip.
"""

from __future__ import annotations

from functools import cache

from harness import print_marked, rows, run_example

import sgframe_dsl as sgf

LETTERS = " A", " B", " C", " D"


@sgf.function
def mmlu(s: sgf.State, subject: str, question: str) -> None:
    s += worked_examples(subject)
    s += question
    s += sgf.select("answer", LETTERS)


@cache
def worked_examples(subject: str) -> str:
    examples = [row for row in rows("mmlu_dev.csv") if row["subject"] == subject]
    about = f"The following are multiple choice questions about {subject.replace('_', ' ')}.\n\n"
    return about + "".join(f"{asked(row)}{letter(row)}\n\n" for row in examples)


def asked(row: dict[str, str]) -> str:
    choices = "".join(f"\n{mark.strip()}. {row[f'choice{place}']}" for place, mark in enumerate(LETTERS))
    return f"{row['question']}{choices}\nAnswer:"


def letter(row: dict[str, str]) -> str:
    return LETTERS[int(row["answer"])]


def main(items: int = 20, concurrency: int = 8) -> list[str]:
    questions = rows("mmlu_test.csv")[:items]
    states = mmlu.run_batch([(row["subject"], asked(row)) for row in questions], concurrency=concurrency)
    answers = [state["answer"] for state in states]
    print_marked([row["question"] for row in questions], answers, list(map(letter, questions)))
    return answers


if __name__ == "__main__":
    run_example(main)
