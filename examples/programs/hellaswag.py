"""HellaSwag: how does it go on? The likeliest of four endings, by log-probability per token (Zellers et al., 2019).

The endings are scored in one trip: what they begin with alike, and all that stands before them, is computed once.
"""

from __future__ import annotations

from harness import print_marked, rows, run_example

import sgframe_dsl as sgf

SHOTS = 5
"""So many items show how it is done, the others are asked."""


@sgf.function
def hellaswag(s: sgf.State, beginning: str, endings: list[str]) -> None:
    for row in rows("hellaswag.jsonl")[:SHOTS]:
        s += f"{row['query']} {row['choices'][row['gold']]}\n\n"
    s += beginning
    s += sgf.select("ending", [f" {ending}" for ending in endings], method="token_length_normalized")


def main(items: int = 20, concurrency: int = 8) -> list[str]:
    asked = rows("hellaswag.jsonl")[SHOTS:][:items]
    states = hellaswag.run_batch([(row["query"], row["choices"]) for row in asked], concurrency=concurrency)
    answers = [state["ending"][1:] for state in states]
    print_marked([row["query"] for row in asked], answers, [row["choices"][row["gold"]] for row in asked])
    return answers


if __name__ == "__main__":
    run_example(main)
