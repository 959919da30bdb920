"""GSM8K, few-shot: a chain of thought, and a number at its end (Cobbe et al., 2021; Wei et al., 2022)."""

from __future__ import annotations

import re
from typing import Any

from harness import print_marked, rows, run_example

import sgframe_dsl as sgf

SHOTS = 5
"""So many problems are shown with their solutions, the others are asked."""
WORKED, ASKED = rows("gsm8k.jsonl")[:SHOTS], rows("gsm8k.jsonl")[SHOTS:]


@sgf.function
def gsm8k(s: sgf.State, question: str, max_tokens: int) -> None:
    s += "".join(map(worked, WORKED))
    s += f"Question: {question}\nAnswer:"
    s += sgf.gen("thought", max_tokens=max_tokens, stop=["####", "\n\n"])
    s += "####" + sgf.gen("answer", dtype=int, max_tokens=6)


def worked(row: dict[str, Any]) -> str:
    solution = re.sub("<<.*?>>", "", row["answer"])  # notes for a calculator
    return f"Question: {row['question']}\nAnswer: {solution}\n\n"


def number(row: dict[str, Any]) -> int:
    return int(row["answer"].partition("#### ")[2].replace(",", ""))


def main(items: int = 20, concurrency: int = 8, max_tokens: int = 128) -> list[int]:
    asked = ASKED[:items]
    work = [(row["question"], max_tokens) for row in asked]
    states = gsm8k.run_batch(work, concurrency=concurrency, sampling={"temperature": 0})
    answers = [state["answer"] for state in states]
    print_marked([row["question"] for row in asked], answers, list(map(number, asked)))
    return answers


if __name__ == "__main__":
    run_example(main)
