"""ReAct: an agent that thinks, looks things up and answers (Yao et al., 2023).

Its encyclopedia holds what was recorded when a larger model answered the same questions. A step is an expression, made by a
function; Python's ``while`` looks at what the model chose to do.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from harness import rows, run_example

import sgframe_dsl as sgf

RUNS = rows("react_hotpotqa.jsonl")
SHOWN = RUNS[:2]
PAGES = {step["action"].removeprefix("Search[")[:-1]: step["observation"] for run in RUNS for step in run["steps"][:-1]}
MOST_STEPS = 4


def step(number: int, *verbs: str) -> sgf.Expression:
    """A thought, then what to do: one of ``verbs``, with its object."""
    thought = f"Thought {number}:" + sgf.gen("thought", stop="\n")
    action = f"\nAction {number}: " + sgf.gen("verb", choices=verbs) + "["
    return thought + action + sgf.gen("object", max_tokens=12, stop=["]", "\n"]) + "]\n"


@sgf.function
def react(s: sgf.State, question: str) -> None:
    s += "Answer a question by thoughts, actions and observations.\n\n"
    s += "".join(recorded(run) for run in SHOWN) + f"Question: {question}\n"
    number = 1
    s += step(number, "Search", "Finish")
    while s["verb"] == "Search":
        s += f"Observation {number}: {search(s['object'])}\n"
        number += 1
        s += step(number, "Search", "Finish") if number < MOST_STEPS else step(number, "Finish")


def search(title: str) -> str:
    """The first sentences of the page that ``title`` names nearly."""
    found = difflib.get_close_matches(title.strip(), PAGES, n=1)
    return first_sentences(PAGES[found[0]]) if found else f"Could not find {title.strip()}."


def first_sentences(text: str) -> str:
    return " ".join(re.split(r"(?<=[.!?])\s+", text.strip())[:2])


def recorded(run: dict[str, Any]) -> str:
    """A run as the agent would have written it."""
    steps = [
        f"Thought {number}: {step['thought']}\nAction {number}: {step['action']}\n"
        + f"Observation {number}: {first_sentences(step['observation'])}\n" * step["action"].startswith("Search")
        for number, step in enumerate(run["steps"], start=1)
    ]
    return f"Question: {run['question']}\n{''.join(steps)}\n"


def main(items: int = 10, concurrency: int = 8, max_tokens: int = 32) -> list[str]:
    questions = [run["question"] for run in RUNS[len(SHOWN) :][:items]]
    states = react.run_batch(questions, concurrency=concurrency, sampling={"temperature": 0, "max_tokens": max_tokens})
    answers = [state["object"].strip() for state in states]
    for question, answer in zip(questions, answers, strict=True):
        print(f"{question}\n  {answer}")
    return answers


if __name__ == "__main__":
    run_example(main)
