"""What the kernels of steps take, and how near that is to what the machine can do; as tables, as bars, and as JSON."""

from __future__ import annotations

import msgspec
from drive.limits import Limits
from drive.machine import Machine

from profiles.picture import Bar
from profiles.report import lines_of

HEAD = ("", "launches", "ms", "share", "GB/s", "GFLOP/s", "of the limit")


class Part(msgspec.Struct, frozen=True):
    """All ``launches`` of one kind in a step: the bytes that they have to move and their multiplications and additions,
    0 where they have none."""

    kind: str
    seconds: float
    moved: float = 0.0
    operations: float = 0.0
    launches: int = 1

    def with_more(self, other: Part) -> Part:
        """Both together."""
        return Part(
            self.kind,
            self.seconds + other.seconds,
            self.moved + other.moved,
            self.operations + other.operations,
            self.launches + other.launches,
        )

    def least_seconds(self, limits: Limits) -> float:
        """What it would take at the rates of ``limits``, the slower of the two (Williams et al. 2009, roofline). 0 for what
        only moves: it finds its few bytes in the caches."""
        moving = self.moved / limits.read_bytes_per_second
        return max(moving, self.operations / limits.gemm_flop_per_second) if self.operations else 0.0


class StepProfile(msgspec.Struct, frozen=True):
    """The parts of a step in their order."""

    shape: str
    parts: list[Part]

    def table(self, limits: Limits, *, markdown: bool) -> str:
        whole = Part("together", 0.0, launches=0)
        for part in self.parts:
            whole = whole.with_more(part)
        least = sum(part.least_seconds(limits) for part in self.parts)
        lines = [_line(part, part.least_seconds(limits), whole) for part in self.parts]
        head = (self.shape, *HEAD[1:])
        return lines_of([head, *lines, _line(whole, least, whole)], markdown=markdown)


class KernelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """``limits`` are of as many ``threads`` as the kernels had."""

    machine: Machine
    threads: int
    limits: Limits
    steps: list[StepProfile]

    def table(self, *, markdown: bool) -> str:
        """For each step what its parts take. A part that is at its limit moves its bytes or does its operations as quickly
        as the machine can."""
        return "\n\n".join(step.table(self.limits, markdown=markdown) for step in self.steps)

    def bars(self) -> list[Bar]:
        """Each step by its parts."""
        return [Bar(step.shape, {part.kind: 1000 * part.seconds for part in step.parts}) for step in self.steps]


def _line(part: Part, least: float, whole: Part) -> list[str]:
    rates = [f"{amount / part.seconds / 1e9:.1f}" if amount else "" for amount in (part.moved, part.operations)]
    of_limit = f"{least / part.seconds:.0%}" if least else ""
    return [
        part.kind,
        f"{part.launches}",
        f"{1000 * part.seconds:.3f}",
        f"{part.seconds / whole.seconds:.0%}",
        *rates,
        of_limit,
    ]
