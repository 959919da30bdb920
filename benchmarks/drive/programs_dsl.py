"""The programs in our language. Each is told anew as plain calls in ``programs_plain``: the same work, call by call."""

from __future__ import annotations

import sgframe_dsl as sgf
from drive.programs_tasks import (
    CHAIN_TOKENS,
    CHAINS,
    CONCLUSION_TOKENS,
    DIMENSIONS,
    GRADES,
    LETTERS,
    LEVELS,
    NUMBER_TOKENS,
    SUMMARY_TOKENS,
    THOUGHT_TOKENS,
    VIEW_TOKENS,
    WIDTH,
    Task,
)
from sgframe_dsl.options import Sampling

SAMPLING: Sampling = {"temperature": 0.0, "ignore_eos": True}
"""Unless a ``gen`` has its own: greedy, and every text as long as it may be."""


@sgf.function
def tree_of_thought(s: sgf.State, task: Task) -> None:
    s += task.text
    for level in range(LEVELS):
        s += f"\nStep {level + 1}:"
        thoughts = s.fork(WIDTH)
        for number in range(WIDTH):
            thoughts[number] += sgf.gen("thought", max_tokens=THOUGHT_TOKENS, temperature=1.0, seed=task.seed + number)
            thoughts[number] += "\nThis step is" + sgf.select("grade", GRADES)
        thoughts.select(by=_worth)
    s += "\nConclusion:" + sgf.gen("conclusion", max_tokens=CONCLUSION_TOKENS)


def _worth(thought: sgf.State) -> float:
    return float(thought.meta("grade").scores[GRADES[0]])


@sgf.function
def self_consistency(s: sgf.State, task: Task) -> None:
    s += task.text
    chains = s.fork(CHAINS)
    for number in range(CHAINS):
        chains[number] += sgf.gen("reasoning", max_tokens=CHAIN_TOKENS, temperature=1.0, seed=task.seed + number)
        chains[number] += "\nThe answer is" + sgf.gen("answer", max_tokens=NUMBER_TOKENS)
    chains.select(by="answer")


@sgf.function
def multiple_choice(s: sgf.State, task: Task) -> None:
    s += task.text + sgf.select("answer", LETTERS)


@sgf.function
def judge(s: sgf.State, task: Task) -> None:
    s += task.text
    views = s.fork(len(DIMENSIONS))
    for number, dimension in enumerate(DIMENSIONS):
        views[number] += f"\nThe {dimension} of this text:" + sgf.gen("view", max_tokens=VIEW_TOKENS)
    views.join()
    for dimension, view in zip(DIMENSIONS, s["view"], strict=True):
        s += f"\nIts {dimension}:{view}"
    s += "\nIn short:" + sgf.gen("summary", max_tokens=SUMMARY_TOKENS)
