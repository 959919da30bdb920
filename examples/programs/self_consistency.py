"""GSM8K with self-consistency: several chains of thought, and the answer that most of them come to (Wang et al., 2023).

The chains branch off after the question, so that it is computed once; those that are outvoted are let go of.
"""

from __future__ import annotations

from gsm8k import ASKED, WORKED, number, worked
from harness import print_marked, run_example

import sgframe_dsl as sgf


@sgf.function
def self_consistency(s: sgf.State, question: str, chains: int, max_tokens: int) -> None:
    s += "".join(map(worked, WORKED))
    s += f"Question: {question}\nAnswer:"
    branches = s.fork(chains)
    for seed, branch in enumerate(branches):
        branch += sgf.gen("thought", max_tokens=max_tokens, stop=["####", "\n\n"], temperature=0.7, seed=seed)
        branch += "####" + sgf.gen("answer", dtype=int, max_tokens=6, temperature=0)
    branches.select(by="answer")


def main(items: int = 10, concurrency: int = 4, chains: int = 5, max_tokens: int = 128) -> list[int]:
    asked = ASKED[:items]
    work = [(row["question"], chains, max_tokens) for row in asked]
    answers = [state["answer"] for state in self_consistency.run_batch(work, concurrency=concurrency)]
    print_marked([row["question"] for row in asked], answers, list(map(number, asked)))
    return answers


if __name__ == "__main__":
    run_example(main)
