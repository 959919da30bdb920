"""The record of a run: what each operation of a program took, in the shape of its forks. Plain data, no drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sgframe_programs.parts import Cost

if TYPE_CHECKING:
    from rich.tree import Tree

Kind = Literal["gen", "select", "fork", "join"]


@dataclass(slots=True)
class Step:
    """One operation of a state. ``started`` and ``ended`` are in seconds since the run began; ``ended`` is -1 while it
    runs.

    Attributes:
        name: the variable it sets; of a fork what is known of its purpose, else empty.
        line: ``file.py:12``, where the program asked for it.
        prompt: the end of the text added before it, shortened.
        answer: the beginning of what it gave, shortened.
        cost: what the backend told; None for ``fork`` and ``join``, and for what failed.
        error: why it failed, else empty.
        branches: of a fork, the steps of each branch.
        chosen: of a fork whose branches were selected from, the branch that won; -1 if none.
    """

    kind: Kind
    name: str
    line: str
    started: float
    ended: float = -1.0
    prompt: str = ""
    answer: str = ""
    cost: Cost | None = None
    error: str = ""
    branches: list[list[Step]] = field(default_factory=list)
    chosen: int = -1

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it runs."""
        return max(self.ended - self.started, 0.0)


@dataclass(slots=True)
class Trace:
    """A run of ``program``: the steps of its main state, from which those of the branches hang. ``seconds`` in all."""

    program: str
    steps: list[Step] = field(default_factory=list)
    seconds: float = 0.0

    def walk(self) -> Iterator[Step]:
        """All steps, depth first."""
        yield from _walk(self.steps)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that the calls had before them, together: what would be computed if nothing were shared."""
        return sum(step.cost.prompt_tokens + step.cost.scored_tokens for step in self.walk() if step.cost)

    @property
    def computed_tokens(self) -> int | None:
        """Prompt tokens that were computed; None when the backend does not tell."""
        costs = [step.cost for step in self.walk() if step.cost]
        if any(cost.cached_tokens is None for cost in costs):
            return None
        return sum(cost.prompt_tokens - (cost.cached_tokens or 0) + cost.scored_tokens for cost in costs)

    @property
    def output_tokens(self) -> int:
        """Tokens generated."""
        return sum(step.cost.output_tokens for step in self.walk() if step.cost)

    @property
    def calls(self) -> int:
        """Round trips that computed something."""
        return sum(step.cost is not None for step in self.walk())

    def __rich__(self) -> Tree:
        """What ``rich.print`` shows."""
        from sgframe_dsl.explain import render  # noqa: PLC0415 - drawing knows traces, and most runs are not drawn

        return render(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from sgframe_dsl.explain import svg  # noqa: PLC0415 - as above

        return svg(self)


def _walk(steps: list[Step]) -> Iterator[Step]:
    ahead = steps[::-1]
    while ahead:  # not by recursion: branches of branches may go deep
        yield (step := ahead.pop())
        for branch in reversed(step.branches):
            ahead += branch[::-1]
