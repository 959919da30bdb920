"""The rows: a kind of program, told both ways, and what it is about. Knows no server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from drive import programs_dsl, programs_plain
from drive.programs_client import Client
from drive.programs_tasks import Make, Task, Writer, chain_tasks, choice_tasks, essay_tasks, thought_tasks
from drive.prompts import Texts
from sgframe_dsl.functions import Function


@dataclass(frozen=True, slots=True)
class Row:
    """``dsl`` is the program in our language, ``plain`` in plain calls; each takes a task of ``make``."""

    name: str
    what: str
    make: Make
    dsl: Function
    plain: Callable[[Client, Task], Coroutine[Any, Any, str]]

    def tasks(self, texts: Texts, seed: str, scale: float) -> list[Task]:
        """The same seed gives the same tasks, another one others."""
        return self.make(Writer(texts, Random(f"{seed}/{self.name}"), scale))


ROWS = {
    row.name: row
    for row in (
        Row("tot", "tree of thought", thought_tasks, programs_dsl.tree_of_thought, programs_plain.tree_of_thought),
        Row("sc", "self-consistency", chain_tasks, programs_dsl.self_consistency, programs_plain.self_consistency),
        Row("mc", "multiple choice", choice_tasks, programs_dsl.multiple_choice, programs_plain.multiple_choice),
        Row("judge", "judge of four views", essay_tasks, programs_dsl.judge, programs_plain.judge),
    )
}
