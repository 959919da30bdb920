"""What this rank has applied: a digest that rolls on from step to step, and the last plans to be shown.

Ranks whose digests are equal have executed the same. Knows nothing of how digests travel between the ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from sgframe.messages import Decoder, Ints, NewRow, ScheduleBatch, ints

Report = tuple[int, bytes]
"""A step, and a digest."""

KEPT = 512
"""Steps that are kept: as many may go by until two ranks know that they differ."""
AROUND = 4
"""Steps that are shown before and after the first that differs."""
SHOWN = 12
"""Values that are shown of an array."""

_decode_record = msgspec.msgpack.Decoder(tuple[int, bytes, list[bytes]]).decode
_decode_plan: Decoder[ScheduleBatch] = Decoder(ScheduleBatch)


class Applied(msgspec.Struct, frozen=True, array_like=True):
    """A step, its plan in words, and the digest once that was applied."""

    step: int
    plan: str
    digest: bytes


class History(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The last steps of a rank, in order."""

    steps: list[Applied]


class PlanDigest:
    """BLAKE2b (RFC 7693), 8 bytes, over all plans and what was made of them. Reports it at the multiples of ``interval``.

    A rank that leaves such a step out reports the next one it executes, and is with the others again after that.

    ``update`` is called by the thread that executes; the other methods by the one that watches.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._hash = blake2b(digest_size=8)
        self._next = 0
        self._due: deque[Report] = deque()
        self._kept: deque[tuple[bytes, bytes]] = deque(maxlen=KEPT)

    def update(self, step: int, plan: bytes, *inputs: npt.NDArray[np.int32]) -> None:
        """This rank executes ``plan``, an encoded ScheduleBatch, and has made ``inputs`` of it."""
        record = msgspec.msgpack.encode((step, plan, [values.tobytes() for values in inputs]))
        self._hash.update(record)
        digest = self._hash.digest()
        self._kept.append((record, digest))
        if step >= self._next:
            self._due.append((step, digest))
            self._next = (step // self._interval + 1) * self._interval

    def due(self) -> list[Report]:
        """What is to be compared with the other ranks, of what was not given yet."""
        return [self._due.popleft() for _ in range(len(self._due))]

    def history(self) -> History:
        return History([_applied(*kept) for kept in self._kept.copy()])


class Comparison:
    """Sets what rank 0 reports against what one other rank does. Whoever is ahead waits here for the other one; that is
    bounded, since a rank is given up that sends nothing."""

    def __init__(self) -> None:
        self._mine: deque[Report] = deque()
        self._theirs: deque[Report] = deque()

    def differs(self, mine: list[Report], theirs: list[Report]) -> bool:
        """Whether the digests of a step differ that both have reported by now. What one alone reports is passed over."""
        self._mine.extend(mine)
        self._theirs.extend(theirs)
        while self._mine and self._theirs:
            (my_step, my_digest), (their_step, their_digest) = self._mine[0], self._theirs[0]
            if my_step <= their_step:
                self._mine.popleft()
            if their_step <= my_step:
                self._theirs.popleft()
            if my_step == their_step and my_digest != their_digest:
                return True
        return False


def difference(name: str, mine: History, theirs: History) -> str:
    """What rank 0 and the rank ``name`` have executed around the first step in which they differ, of those that both have
    come to and still know."""
    ours, others = ({one.step: one for one in history.steps} for history in (mine, theirs))
    start, end = max(_first(ours), _first(others)), min(_last(ours), _last(others))
    steps = [step for step in sorted(ours | others) if start <= step]
    first = next((step for step in steps if step <= end and ours.get(step) != others.get(step)), None)
    if first is None:
        return f"{name} has not executed what rank 0 has, in steps before those that both still know the plans of"
    lines = [f"{name} has not executed what rank 0 has. The first step known to differ is {first}:"]
    for step in steps:
        if step in range(first - AROUND, first):
            lines.append(f"  step {step}, both: {ours[step].plan}")
        elif step in range(first, first + AROUND):
            mark = ">" if step == first else " "
            lines.append(f"{mark} step {step}, rank 0: {_plan(ours.get(step))}")
            lines.append(f"{mark} step {step}, {name}: {_plan(others.get(step))}")
    return "\n".join(lines)


def _first(steps: Mapping[int, Applied]) -> int:
    return min(steps, default=0)


def _last(steps: Mapping[int, Applied]) -> int:
    return max(steps, default=-1)


def _plan(applied: Applied | None) -> str:
    return applied.plan if applied else "not executed"


def _applied(record: bytes, digest: bytes) -> Applied:
    step, plan, inputs = _decode_record(record)
    return Applied(step, _readable(plan, inputs), digest)


def _readable(plan: bytes, inputs: list[bytes]) -> str:
    batch = _decode_plan(plan)
    parts = [
        *([f"released {_values(batch.released)}"] if batch.released else []),
        *(_admission(new) for new in batch.admitted),
        *(f"row {moved.row} from {moved.start} in slots {_values(moved.slots)}" for moved in batch.rewrites),
        *(f"row {more.row} goes on with {_values(more.tokens)}" for more in batch.appended),
        f"rows {_values(batch.rows)}",
        f"counts {_values(batch.counts)}",
        f"slots {_values(batch.slots)}",
        f"samples {_values(batch.samples)}",
        *(f"made {_values(ints(np.frombuffer(values, np.int32).tolist()))}" for values in inputs),
        f"plan {crc32(plan):08x}",
    ]
    return "; ".join(parts)


def _admission(new: NewRow) -> str:
    return f"row {new.row} admitted with tokens {_values(new.tokens)}, cached in slots {_values(new.slots)}"


def _values(values: Ints) -> str:
    """All of a few; of many the first, how many there are, and a checksum that shows whether the others differ."""
    shown = " ".join(str(value) for value in values[:SHOWN]) or "-"
    return shown if len(values) <= SHOWN else f"{shown} … ({len(values)}, {crc32(values):08x})"
