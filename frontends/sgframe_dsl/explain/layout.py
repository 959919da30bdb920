"""Where everything stands in the picture of a run: a row for each step, tokens to the right. What draws it only follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sgframe_dsl.trace import Step
from sgframe_programs.parts import Cost


@dataclass(frozen=True, slots=True)
class Row:
    """A step; or, without one, a branch that asked nothing. ``start`` is how many tokens its state had before it, as
    far as is known. ``branch`` is the number of the branch that begins here, else -1."""

    step: Step | None
    depth: int
    start: int
    branch: int = -1
    chosen: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """What hangs from the fork in row ``row``: branches that begin in the rows ``heads``; row ``last`` ends the last one.
    They have their first ``tokens`` tokens in common, as far as is known."""

    row: int
    depth: int
    tokens: int
    heads: tuple[int, ...]
    last: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows from top to bottom, and the forks among them."""

    rows: list[Row] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)


def layout(steps: Sequence[Step]) -> Layout:
    found = Layout()
    _chain(found, steps, Row(None, 0, 0))
    return found


def bars(cost: Cost) -> list[tuple[str, int, int]]:
    """(kind, first token, end) from left to right, those of no length left out. The kinds are ``reused``, ``computed``,
    ``sent`` where the backend does not tell which, ``scored``, ``generated``, and ``forced``, whose place in the answer
    is not known."""
    prompt, cached = cost.prompt_tokens, cost.cached_tokens
    scored = prompt + cost.scored_tokens
    answer = prompt + cost.output_tokens
    ends = [("reused", cached or 0), ("sent" if cached is None else "computed", prompt), ("scored", scored)]
    ends += [("generated", answer - cost.forced_tokens), ("forced", answer)]
    placed = [(kind, first, end) for (_, first), (kind, end) in pairwise([("", 0), *ends])]
    return [bar for bar in placed if bar[1] < bar[2]]


def _chain(found: Layout, steps: Sequence[Step], head: Row) -> None:
    """Add the steps of one state, the first in the place of ``head``."""
    row = head
    for step in steps:
        row = Row(step, row.depth, row.start, row.branch, row.chosen, row.lost)
        found.rows.append(row)
        if step.branches:
            _fork(found, step, row)
        start = step.cost.prompt_tokens + step.cost.output_tokens if step.cost else row.start
        row = Row(None, row.depth, start, lost=row.lost)
    if row is head and head.branch >= 0:
        found.rows.append(head)


def _fork(found: Layout, fork: Step, row: Row) -> None:
    place, tokens, heads = len(found.rows) - 1, _shared(fork, row.start), []
    for number, branch in enumerate(fork.branches):
        heads.append(len(found.rows))
        chosen = number == fork.chosen
        lost = row.lost or (fork.chosen >= 0 and not chosen)
        _chain(found, branch, Row(None, row.depth + 1, tokens, number, chosen, lost))
    found.forks.append(Fork(place, row.depth, tokens, tuple(heads), len(found.rows) - 1))


def _shared(fork: Step, start: int) -> int:
    """Tokens that the branches have in common. No step tells of text that was added right before the fork; what the
    branches reused does."""
    costs = [branch[0].cost for branch in fork.branches if branch and branch[0].cost]
    if not costs:
        return start
    reused = max(cost.cached_tokens or 0 for cost in costs)
    return min(max(start, reused), *(cost.prompt_tokens for cost in costs))
