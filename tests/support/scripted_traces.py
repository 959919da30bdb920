"""Traces as runs would leave them, with numbers that tests can say."""

from __future__ import annotations

from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost


def gen(name: str, cost: Cost | None, answer: str = "", *, line: str = "p.py:1", error: str = "") -> Step:
    """Took a quarter of a second; ``prompt`` is that of nothing."""
    return Step("gen", name, line, 0.0, 0.25, answer=answer, cost=cost, error=error)


def thinking() -> Trace:
    """A plan, two branches from it of which the second won, and an answer."""
    plan = Step("gen", "plan", "think.py:9", 0.0, 0.5, "Q: why?\n", "First", Cost(100, 0, 20))
    losing = [gen("thought", Cost(130, 120, 10, 4), "a", line="think.py:14")]
    winning = [
        gen("thought", Cost(130, 120, 12), "b", line="think.py:14"),
        Step("select", "good", "think.py:15", 0.75, 0.8, "Good?", "yes", Cost(150, 140, scored_tokens=3)),
    ]
    fork = Step("fork", "", "think.py:12", 0.5, 0.8, branches=[losing, winning], chosen=1)
    answer = Step("gen", "answer", "think.py:20", 0.8, 1.25, "So", "42", Cost(1200, 150, 8))
    return Trace("think", [plan, fork, answer], 1.25)


def chains(count: int) -> Trace:
    """One fork of ``count`` branches with a gen in each; the prompt of 1,000 tokens is computed in the first."""
    branches = [[gen("chain", Cost(1000, 999 if number else 0, 50), f"{number}")] for number in range(count)]
    return Trace("chains", [Step("fork", "", "c.py:2", 0.0, 1.0, branches=branches)], 1.0)
