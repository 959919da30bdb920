"""What the threads of a worker did, row by row: as tables, as bars, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec
from drive.columns import aligned
from drive.machine import Machine

from profiles.picture import Bar
from profiles.stacks import KINDS


class RowProfile(msgspec.Struct, frozen=True, kw_only=True):
    """``threads`` has by thread and kind the share of the thread's time, while ``concurrency`` requests at once brought so
    many output tokens per second."""

    row: str
    what: str
    concurrency: int
    tokens_per_second: float
    threads: dict[str, dict[str, float]]

    @property
    def step_ms(self) -> float:
        """Milliseconds from a token of a request to its next, prompts and pauses included."""
        return 1000 * self.concurrency / self.tokens_per_second


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` tells it from another that stands beside it."""

    name: str
    machine: Machine
    seconds: int
    hertz: int
    rows: list[RowProfile]


def bars(profiles: Sequence[Profile]) -> list[Bar]:
    """Milliseconds of a step, by row, profile and thread."""
    return [
        Bar(f"{row.row}, {name}, {thread}", {kind: share * row.step_ms for kind, share in kinds.items()})
        for name, row in _by_row(profiles)
        for thread, kinds in row.threads.items()
    ]


def table(profiles: Sequence[Profile], *, markdown: bool) -> str:
    """Milliseconds of a step and shares by kind, a table for each row, ``profiles`` beside each other."""
    rows = groupby(_by_row(profiles), key=lambda named: named[1].row)
    return "\n\n".join(_row_table(list(named), markdown=markdown) for _, named in rows)


def lines_of(lines: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """A table whose first line is its head, whose first column has words, and the others figures."""
    if not markdown:
        return aligned(lines, left=1)
    head, *others = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|---" + "|--:" * (len(lines[0]) - 1) + "|", *others])


def _by_row(profiles: Sequence[Profile]) -> list[tuple[str, RowProfile]]:
    """Each row of each with the profile's name, those of one row together."""
    rows = dict.fromkeys(row.row for profile in profiles for row in profile.rows)
    return [(profile.name, row) for name in rows for profile in profiles for row in profile.rows if row.row == name]


def _row_table(named: Sequence[tuple[str, RowProfile]], *, markdown: bool) -> str:
    rates = "; ".join(f"{name}: {row.tokens_per_second:.0f} tok/s, {row.step_ms:.1f} ms a step" for name, row in named)
    columns = [(name, row, thread) for name, row in named for thread in row.threads]
    lines = [[kind, *(_cell(row, thread, kind) for _, row, thread in columns)] for kind in KINDS]
    first = named[0][1]
    head = [f"ms a step, row {first.row}", *(f"{name}, {thread}" for name, _, thread in columns)]
    shown = lines_of([head, *(line for line in lines if any(line[1:]))], markdown=markdown)
    return f"{first.what}; {rates}\n\n{shown}"


def _cell(row: RowProfile, thread: str, kind: str) -> str:
    share = row.threads[thread].get(kind)
    return "" if share is None else f"{share * row.step_ms:.2f} ({share:.0%})"
