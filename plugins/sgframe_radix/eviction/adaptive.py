"""What is least likely to be wanted soon goes first, by experience: made for chats and agents that come back."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from sgframe.interfaces.cache import Clock, Lease
from sgframe_radix.eviction.leaves import LeafStrategy
from sgframe_radix.eviction.returns import BINS, EDGES, Kind, ReturnModel, Visit, age_bin
from sgframe_radix.tree import TreeNode

TURNS = (1, 2, 4, 8)
"""Bins of turns; likewise of the uses of a junction and of pauses in seconds."""
USES = (4, 8, 16, 64)
SLACK = 512
"""Tokens at the end of a turn that the next one may leave out (a template's opening for the answer, a block cut short); an
eighth of the turn if that is more."""
PAUSES = (15.0, 30.0, 60.0, 120.0, 240.0, 480.0)
SESSION, JUNCTION = 0, 1
PASSED: Kind = (-2, -1, -1)
"""Of what a session has moved past: of no worth."""
REFRESH = 64
"""Visits after which the values are computed anew."""


class Mark:
    """What is known of a node: the last ``visit`` to it, its ``kind`` and ``time``; its group while it is evictable.

    A *junction* is a node that more than one child was seen below: there ``own`` is its visit, for it comes back with any.
    """

    __slots__ = ("bin", "children", "kind", "own", "time", "uses", "visit")

    def __init__(self, time: float) -> None:
        self.visit: Visit | None = None
        self.own: Visit | None = None
        self.kind: Kind = (SESSION, 0, 0)
        self.time = time
        self.uses = 0
        self.children = 0
        self.bin = -1

    @property
    def last(self) -> Visit | None:
        """Whose turn the path up to here was; nobody's at a junction."""
        return self.visit if self.children < 2 else None


@dataclass(slots=True)
class Stay:
    """A lease as it goes on: since when, how far its path was known, whose that was, and what of it was not taken."""

    since: float
    known: int = 0
    previous: Visit | None = None
    left: TreeNode | None = None


class Adaptive(LeafStrategy):
    """Keeps what is worth most returns for each second of its place, as a ``ReturnModel`` has learned it from the traffic.

    A request that goes on from at least half of a path that was seen before, cached or evicted, is its next turn. All of
    its path becomes of one kind, by its turns and its last pause; junctions are of a kind of their own. Evictable leaves
    stand in groups by kind and age, the oldest of a group first; the group of least worth gives the victim. A group costs
    the same however many leaves it has.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._model = ReturnModel()
        self._groups: dict[tuple[Kind, int], OrderedDict[TreeNode, None]] = {}
        self._ageing: list[tuple[float, int, TreeNode]] = []
        self._evictable = 0
        self._stays: dict[int, Stay] = {}
        self._cut_off: TreeNode | None = None
        self._ranking: list[tuple[Kind, int]] = []
        self._until_refresh = 0

    def inserted(self, leaf: TreeNode, lease: Lease, returned: int, ghost: Any) -> None:
        leaf.mark = Mark(self.clock())
        stay = self._stay(lease)
        parent = leaf.parent
        if stay.known == parent.end and isinstance(ghost, Mark):
            stay.known += returned
            stay.previous = ghost.last
        if parent.end and not returned:
            parent.mark.children += 1

    def split(self, upper: TreeNode, lower: TreeNode) -> None:
        upper.mark = mark = Mark(lower.mark.time)
        mark.visit, mark.kind, mark.uses, mark.children = lower.mark.visit, lower.mark.kind, lower.mark.uses, 1
        self._cut_off = lower

    def leased(self, path: Sequence[TreeNode], lease: Lease) -> None:
        super().leased(path, lease)
        if id(lease) not in self._stays:
            stay = self._stay(lease)
            stay.known, stay.previous = path[0].end, path[0].mark.last
            stay.left = self._cut_off
        self._cut_off = None

    def released(self, path: Sequence[TreeNode], lease: Lease) -> None:
        stay = self._stays.pop(id(lease))
        now = self.clock()
        visit = self._visit(stay, path[0].end, now)
        for node in path:
            self._touch(node.mark, visit, stay.since, now)
        self._until_refresh -= 1
        super().released(path, lease)

    def _stay(self, lease: Lease) -> Stay:
        stay = self._stays.get(id(lease))
        if stay is None:
            stay = self._stays[id(lease)] = Stay(self.clock())
        return stay

    def _visit(self, stay: Stay, end: int, now: float) -> Visit:
        previous = stay.previous
        if previous is None or 2 * stay.known < end or previous.end - stay.known > max(SLACK, previous.end // 8):
            return self._model.start((SESSION, 0, 0), now, end)
        self._model.came_back(previous, stay.since)
        if stay.left is not None:
            self._pass_over(stay.left, previous)
        turn = previous.turn + 1
        pause = 1 + bisect_right(PAUSES, stay.since - previous.time)
        return self._model.start((SESSION, bisect_right(TURNS, turn), pause), now, end, turn)

    def _touch(self, mark: Mark, visit: Visit, since: float, now: float) -> None:
        mark.time, mark.visit, mark.kind = now, visit, visit.kind
        mark.uses += 1
        if mark.children > 1:
            pause = 0
            if mark.own is not None:
                self._model.came_back(mark.own, since)
                pause = 1 + bisect_right(PAUSES, since - mark.own.time)
            mark.own = self._model.start((JUNCTION, bisect_right(USES, mark.uses), pause), now)
            mark.kind = mark.own.kind

    def _pass_over(self, leaf: TreeNode, visit: Visit) -> None:
        """The path of ``visit`` went on without its end, ``leaf``: nobody is expected there any more."""
        if leaf.mark.visit is visit and leaf.mark.bin >= 0:
            self.discard(leaf)
            leaf.mark.kind = PASSED
            self._place(leaf, 0)

    def add(self, leaf: TreeNode) -> None:
        self._place(leaf, age_bin(self.clock() - leaf.mark.time))

    def discard(self, leaf: TreeNode) -> None:
        mark = leaf.mark
        if mark.bin >= 0:
            del self._groups[mark.kind, mark.bin][leaf]
            self._evictable -= 1
            mark.bin = -1

    def victim(self) -> TreeNode:
        self._age()
        if self._until_refresh <= 0:
            self._until_refresh = REFRESH
            self._model.refresh()
            self._rank()
        return next(next(iter(group)) for key in self._ranking if (group := self._groups[key]))

    def known(self) -> Iterable[TreeNode]:
        return [leaf for group in self._groups.values() for leaf in group]

    def _place(self, leaf: TreeNode, bin: int) -> None:
        mark = leaf.mark
        mark.bin = bin
        group = self._groups.get((mark.kind, mark.bin))
        if group is None:
            group = self._groups[mark.kind, mark.bin] = OrderedDict()
            self._until_refresh = 0
        group[leaf] = None
        self._evictable += 1
        if mark.bin + 1 < BINS:
            heappush(self._ageing, _entry(leaf))
        if len(self._ageing) > 2 * self._evictable + 100:  # mostly of leaves that are none any more
            self._ageing = [_entry(leaf) for leaf in self.known() if leaf.mark.bin + 1 < BINS]
            heapify(self._ageing)

    def _age(self) -> None:
        """Move the leaves whose age has reached the next bin."""
        now = self.clock()
        while self._ageing and self._ageing[0][0] <= now:
            due, _, leaf = heappop(self._ageing)
            mark = leaf.mark
            if 0 <= mark.bin < BINS - 1 and due == _entry(leaf)[0]:
                older = mark.bin + 1  # whatever a float's rounding says
                self.discard(leaf)
                self._place(leaf, max(older, age_bin(now - mark.time)))

    def _rank(self) -> None:
        """Order the groups by what they are worth, the oldest first among equals."""
        worth = {key: -1.0 if key[0] == PASSED else self._model.values(key[0])[key[1]] for key in self._groups}
        self._ranking = sorted(worth, key=lambda key: (worth[key], -key[1], key[0]))


def _entry(leaf: TreeNode) -> tuple[float, int, TreeNode]:
    """When ``leaf`` reaches the next bin of age, its number, and itself."""
    return leaf.mark.time + EDGES[leaf.mark.bin + 1], leaf.id, leaf
