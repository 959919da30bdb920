"""When does who was here come back? A model of returns, learned while they happen. Knows no tree, tokens or slots.

A *visit* begins when a request lets go of its path, and ends when a request takes that path up again. Visits of one
*kind* (how many turns it had, how long the last pause was) share their experience: how many reached each age, in bins of
growing width, and how many came back in it. Kinds that are rare lean on what all like them did. From these hazards
follows how much it is worth to keep a path of that kind and age: the most returns to be had for each second of keeping
it, over the best time to keep it (the index of Gittins 1979). What is evicted goes on teaching, for a visit needs no KV.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

EDGES = (0.0, *(2.0 ** (power / 2) for power in range(23)), *(2.0**power for power in range(12, 19)))
"""Seconds at which the bins of age begin: twice as fine up to 34 minutes as from there to three days. The last is open."""
BINS = len(EDGES)
PRIOR = 4.0
"""As many visits' weight a kind leans on the kind above it."""
FADE = 0.99975
"""What each visit leaves of the weight of all before it."""
MOST_OPEN = 2**16
"""Visits that are followed at once; while there are more, new ones teach nothing."""

Kind = tuple[int, int, int]
"""Sort of path, bin of turns, bin of the last pause; -1 stands for any."""


class Visit:
    """``time``: when it began; ``end``: length of its path in tokens; ``turn``: how many came before it on that path."""

    __slots__ = ("end", "kind", "open", "time", "turn")

    def __init__(self, kind: Kind, time: float, end: int, turn: int) -> None:
        self.end = end
        self.kind = kind
        self.time = time
        self.turn = turn
        self.open = False


class ReturnModel:
    """Counts, by kind and age, who came back. All times are in seconds and never go back."""

    def __init__(self) -> None:
        self._reached: dict[Kind, list[float]] = {}
        self._returned: dict[Kind, list[float]] = {}
        self._weight = 1.0
        self._open = tuple(deque[Visit]() for _ in range(BINS))
        self._count = 0
        self._values: dict[Kind, list[float]] = {}

    def start(self, kind: Kind, now: float, end: int = 0, turn: int = 0) -> Visit:
        """A path of ``kind`` was let go."""
        self._advance(now)
        visit = Visit(kind, now, end, turn)
        self._weight /= FADE
        if self._weight > 1e9:
            self._rescale()
        if self._count < MOST_OPEN:
            visit.open = True
            self._count += 1
            self._open[0].append(visit)
            self._add(self._reached, kind, 0)
        return visit

    def came_back(self, visit: Visit, now: float) -> None:
        """The path of ``visit`` was taken up again; a second time counts for nothing."""
        self._advance(now)
        if visit.open:
            visit.open = False
            self._add(self._returned, visit.kind, age_bin(now - visit.time))

    def values(self, kind: Kind) -> list[float]:
        """Returns a second that a path of ``kind`` is worth keeping for, by its bin of age; as of the last ``refresh``."""
        values = self._values.get(kind)
        if values is None:
            values = self._values[kind] = _worth(self._hazards(kind))
        return values

    def refresh(self) -> None:
        """Let what was learned since show in ``values``."""
        self._values = {}

    def _advance(self, now: float) -> None:
        """Count those who reached the next bin of age without coming back."""
        for bin in range(BINS):
            queue = self._open[bin]
            end = EDGES[bin + 1] if bin + 1 < BINS else 2 * EDGES[bin]
            while queue and (not queue[0].open or now - queue[0].time >= end):
                visit = queue.popleft()
                if visit.open and bin + 1 < BINS:
                    self._add(self._reached, visit.kind, bin + 1)
                    self._open[bin + 1].append(visit)
                else:
                    visit.open = False
                    self._count -= 1

    def _add(self, table: dict[Kind, list[float]], kind: Kind, bin: int) -> None:
        for one in _lineage(kind):
            row = table.get(one)
            if row is None:
                row = table[one] = [0.0] * BINS
            row[bin] += self._weight

    def _rescale(self) -> None:
        for table in (self._reached, self._returned):
            for row in table.values():
                row[:] = [value / self._weight for value in row]
        self._weight = 1.0

    def _hazards(self, kind: Kind) -> list[float]:
        """The chance to come back within each bin for those who reach it; from the most general kind to this one."""
        nothing = [0.0] * BINS
        lean = PRIOR * self._weight
        hazards = nothing
        for one in reversed(list(_lineage(kind))):
            reached, returned = self._reached.get(one, nothing), self._returned.get(one, nothing)
            hazards = [
                (back + lean * before) / (came + lean)
                for came, back, before in zip(reached, returned, hazards, strict=True)
            ]
        return hazards


def age_bin(age: float) -> int:
    """The bin of ``age`` in seconds."""
    bin = 0
    while bin + 1 < BINS and age >= EDGES[bin + 1]:
        bin += 1
    return bin


def _lineage(kind: Kind) -> Iterator[Kind]:
    """``kind`` and those it belongs to, from the special to the general."""
    sort, turns, pause = kind
    yield kind
    if pause >= 0:
        yield sort, turns, -1
    if turns >= 0:
        yield sort, -1, -1
    yield -1, -1, -1


def _worth(hazards: list[float]) -> list[float]:
    """For each bin: the best ratio of expected returns to expected seconds, over all times to stop waiting."""
    worth = []
    for first in range(BINS):
        alive, returns, seconds, best = 1.0, 0.0, 0.0, 0.0
        for bin in range(first, BINS):
            width = EDGES[bin + 1] - EDGES[bin] if bin + 1 < BINS else EDGES[bin]
            if bin == first:
                width /= 2  # half of it is over on the average
            hazard = hazards[bin]
            returns += alive * hazard
            seconds += alive * width * (1 - hazard / 2)
            alive *= 1 - hazard
            best = max(best, returns / seconds)
        worth.append(best)
    return worth
