"""A run as a tree in the terminal."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from sgframe_dsl.explain.words import clean, duration, excerpt, fault, subject, took, totals
from sgframe_dsl.trace import Step, Trace

_KINDS = {"gen": "bold cyan", "select": "bold magenta", "fork": "bold yellow", "join": "bold yellow"}


def render(trace: Trace) -> Tree:
    """Two lines for each step: what it was and took; what it was asked and gave. The branches of a fork hang from it,
    and where one was chosen the others are dim. A line too long for the terminal loses its end."""
    tree = Tree(_line((clean(trace.program), "bold"), (totals(trace), "")), guide_style="dim")
    _grow(tree, trace.steps)
    return tree


def _grow(tree: Tree, steps: list[Step]) -> None:
    for step in steps:
        below = tree.add(_step(step))
        for number, branch in enumerate(step.branches):
            _grow(below.add(_branch(step, number), style="" if step.chosen in (-1, number) else "dim"), branch)


def _step(step: Step) -> Text:
    text = _line(
        (step.kind, _KINDS[step.kind]),
        (subject(step), "bold"),
        (took(step.cost) if step.cost else "", ""),
        (duration(step.seconds) if step.cost else "", ""),
        (fault(step), "bold red"),
        (clean(step.line), "dim"),
    )
    if said := excerpt(step):
        text.append("\n" + said, "dim")
    return text


def _branch(fork: Step, number: int) -> Text:
    return _line(
        (f"branch {number}", "bold"),
        ("✓ chosen" if number == fork.chosen else "", "bold green"),
        ("" if fork.branches[number] else "asked nothing", "dim"),
    )


def _line(*parts: tuple[str, str]) -> Text:
    """The (text, style) that are not empty, two blanks between."""
    said = [Text(text, style) for text, style in parts if text]
    return Text("  ", no_wrap=True, overflow="ellipsis").join(said)
