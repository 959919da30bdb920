"""Tip suggestion: tips in a few words each, then all of them at length at once (Zheng et al., 2024, SGLang).

``join("concat")`` puts the long tips behind each other.
"""

from __future__ import annotations

from harness import rows, run_example

import sgframe_dsl as sgf


@sgf.function
def suggest(s: sgf.State, topic: str, number: int) -> None:
    s += sgf.user(f"Give {number} tips on {topic}, each in a few words.")
    with s.assistant():
        for tip in range(1, number + 1):
            s += f"{tip}." + sgf.gen(f"tip {tip}", max_tokens=8, stop=[":", ".", "\n"]) + "\n"
    s += sgf.user("Explain each of them in one sentence.")
    with s.assistant():
        branches = s.fork(number)
        for tip, branch in enumerate(branches, start=1):
            branch += f"{tip}.{s[f'tip {tip}']}:" + sgf.gen("detail", stop="\n") + "\n"
        branches.join("concat")


def main(items: int = 10, concurrency: int = 8, max_tokens: int = 32) -> list[list[str]]:
    topics = rows("tip_topics.jsonl")[:items]
    states = suggest.run_batch(topics, concurrency=concurrency, sampling={"temperature": 0, "max_tokens": max_tokens})
    for state in states:
        print(state.messages()[-1]["content"])
    return [state["detail"] for state in states]


if __name__ == "__main__":
    run_example(main)
