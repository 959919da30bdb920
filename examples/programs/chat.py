"""A conversation of several turns, with questions of MT-bench (Zheng et al., 2023).

What was said before is not computed again: a turn costs its question and its answer.
"""

from __future__ import annotations

from harness import rows, run_example

import sgframe_dsl as sgf


@sgf.function
def chat(s: sgf.State, questions: list[str]) -> None:
    s += sgf.system("You are a helpful assistant. Keep it short.")
    for question in questions:
        s += sgf.user(question)
        s += sgf.assistant(sgf.gen("answer"))


def main(items: int = 10, concurrency: int = 8, max_tokens: int = 64) -> list[str]:
    states = chat.run_batch(
        rows("mt_bench.jsonl")[:items], concurrency=concurrency, sampling={"temperature": 0, "max_tokens": max_tokens}
    )
    for state in states:
        for message in state.messages()[1:]:
            print(f"{message['role']}: {message['content']}")
    return [state["answer"] for state in states]


if __name__ == "__main__":
    run_example(main)
