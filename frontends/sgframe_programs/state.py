"""A live state of a program: what it holds, the lease on what is computed of it, and its place among its program's forks."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from sgframe_programs.content import Content
from sgframe_programs.prefixes import Prefix

DEEPEST_LINEAGE = 128
"""Numbers in a lineage, two a fork: beyond it a fork has the lineage of the state that it comes from."""

_programs = itertools.count(1)


class State:
    """The root of a program, or by ``fork`` a branch.

    Attributes:
        lineage: its place in its program, see ``sgframe.scheduler.lineage``.
        prefix: the lease on what is computed of ``content``, if anything is.
        task: the call that runs on it.
        failed: whether a call on it has, so that nothing can be said of where it stands.
        discarded: whether its number means nothing any more.
    """

    def __init__(self, content: Content, lineage: tuple[int, ...] = ()) -> None:
        self.content = content
        self.lineage = lineage or (next(_programs),)
        self.prefix: Prefix | None = None
        self.task: asyncio.Task[Any] | None = None
        self.failed = False
        self.discarded = False
        self._forks = 0

    def fork(self, count: int) -> list[State]:
        """``count`` states that stand where this one does, on the same lease."""
        deepest = len(self.lineage) + 2 > DEEPEST_LINEAGE
        branches = [
            State(self.content.fork(), self.lineage if deepest else (*self.lineage, self._forks, branch))
            for branch in range(count)
        ]
        self._forks += 1
        for branch in branches:
            branch.prefix = self.prefix.share() if self.prefix is not None else None
        return branches

    def move_to(self, prefix: Prefix | None) -> None:
        """Let go of the lease held so far, and hold this one."""
        if self.prefix is not None:
            self.prefix.let_go()
        self.prefix = prefix

    def fail(self) -> None:
        """A call failed: let go; all that is left is to be discarded."""
        self.failed = True
        self.move_to(None)

    def discard(self) -> None:
        """End the call that runs on it, and let go."""
        self.discarded = True
        if self.task is not None:
            self.task.cancel()
        self.move_to(None)
