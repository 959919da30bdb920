"""Retrieval-augmented generation: questions answered from passages that were looked up (Lewis et al., 2020).

The passages are computed once; the questions branch off behind them.
"""

from __future__ import annotations

import re
from collections import Counter

from harness import rows, run_example

import sgframe_dsl as sgf

PASSAGES = [passage for row in rows("essays.jsonl") for passage in row["essay"].split("\n\n")[1:]]
MOST_PASSAGES = 3


@sgf.function
def answer_all(s: sgf.State, topic: str, questions: list[str]) -> None:
    s += f"What is known about {topic}:\n\n" + "\n\n".join(retrieve(f"{topic} {' '.join(questions)}"))
    branches = s.fork(len(questions))
    for branch, question in zip(branches, questions, strict=True):
        branch += f"\n\nQuestion: {question}\nAnswer:" + sgf.gen("answer", stop="\n")
    branches.join()


def retrieve(query: str) -> list[str]:
    """The passages that share most words with ``query``; a word counts for more, the fewer passages have it."""
    asked = words(query)

    def likeness(passage: str) -> float:
        return sum(1 / FREQUENCY[word] for word in words(passage) & asked)

    return sorted(PASSAGES, key=likeness, reverse=True)[:MOST_PASSAGES]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


FREQUENCY = Counter(word for passage in PASSAGES for word in words(passage))


def main(items: int = 10, concurrency: int = 8, max_tokens: int = 32) -> list[list[str]]:
    topics = rows("rag_questions.jsonl")[:items]
    states = answer_all.run_batch(
        topics, concurrency=concurrency, sampling={"temperature": 0, "max_tokens": max_tokens}
    )
    for topic, state in zip(topics, states, strict=True):
        for question, answer in zip(topic["questions"], state["answer"], strict=True):
            print(f"{question}\n  {answer.strip()}")
    return [state["answer"] for state in states]


if __name__ == "__main__":
    run_example(main)
