"""The row of programs: trees of thought and self-consistency, by our language on our server and by plain calls elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import cast

from drive.outcome import Outcome, Target
from drive.programs_rows import ROWS, Row
from drive.programs_sides import Session, dsl_session, plain_session
from drive.prompts import Texts

WARM_UP_PROGRAMS = 2


@dataclass(frozen=True, slots=True)
class Programs:
    """``sets`` of programs, one set after the other; two programs of each go before and are not measured. Plain calls
    compare options by the likeliest next tokens, which is the quickest way that there is. ``longest`` is more than any of
    the calls has in tokens."""

    name: str
    what: str
    unit: str
    sets: Sequence[Row]
    concurrency: int
    longest: int
    scale: float = 1.0

    texts_only = True
    output_tokens = 0  # a vote ends when it is decided, so no number is asked for

    @property
    def requests(self) -> int:
        """Programs; each makes many calls."""
        return sum(len(row.tasks(Texts(1.0), "", self.scale)) for row in self.sets)

    def scaled(self, factor: float) -> Programs:
        """The same with shorter prompts and fewer programs."""
        return replace(self, scale=self.scale * factor)

    def run(self, target: Target) -> Outcome:
        """See Workload. Raises SgframeError and ValueError, too."""
        texts = cast(Texts, target.maker)
        with _session(target) as session:
            for row in self.sets:
                warm_up = row.tasks(texts, f"{target.seed}/warm-up", self.scale)[:WARM_UP_PROGRAMS]
                session.run(row, warm_up, self.concurrency)
            tasks = [(row, row.tasks(texts, target.seed, self.scale)) for row in self.sets]
            measured = [session.run(row, some, self.concurrency) for row, some in tasks]
        return Outcome(
            value=sum(len(some) for _, some in tasks) / sum(one.seconds for one in measured),
            output_tokens=sum(one.output_tokens for one in measured),
        )


def _session(target: Target) -> AbstractContextManager[Session]:
    if target.ours:
        return dsl_session(target.endpoint.url, salt=target.seed)
    return plain_session(target.endpoint, "first-token")


S = Programs("s", "thought trees and votes", "prog/s", (ROWS["tot"], ROWS["sc"]), concurrency=4, longest=1500)
