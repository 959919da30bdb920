"""What the runs come to: medians, spread, ratios; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from drive.client import Timing
from drive.machine import Machine
from drive.rows import Row


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one row. ``values`` has the row's figure for each run; ``spread`` is their range by their median.
    ``requests`` and ``output_tokens_asked`` are those of a run; ``output_tokens`` came in each of the runs."""

    median: float
    spread: float | None
    values: list[float]
    ttft_ms: float
    requests: int
    prompt_tokens: int
    output_tokens: list[int]
    output_tokens_asked: int

    @classmethod
    def of(cls, row: Row, runs: Sequence[Sequence[Timing]]) -> Figures:
        values = [row.figure(timings) for timings in runs]
        every = [timing for timings in runs for timing in timings]
        return cls(
            median=median(values),
            spread=(max(values) - min(values)) / median(values) if len(values) > 1 else None,
            values=values,
            ttft_ms=1000 * median(timing.first - timing.sent for timing in every),
            requests=row.requests,
            prompt_tokens=round(median(timing.prompt_tokens for timing in every)),
            output_tokens=[sum(timing.tokens for timing in timings) for timings in runs],
            output_tokens_asked=row.requests * row.output,
        )


class RowReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``ratio`` is ours by peer's."""

    row: str
    what: str
    unit: str
    ours: Figures
    peer: Figures | None = None
    ratio: float | None = None

    @classmethod
    def of(cls, row: Row, ours: Figures, peer: Figures | None) -> RowReport:
        ratio = ours.median / peer.median if peer else None
        return cls(row=row.name, what=row.what, unit=row.unit, ours=ours, peer=peer, ratio=ratio)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    seed: int
    runs: int
    scale: float
    rows: list[RowReport]

    def table(self) -> str:
        head = f"{'row':<3} {'':<26} {'unit':<5}  {'ours':>8} {'spread':>6} {'TTFT ms':>8}"
        peers = any(row.peer for row in self.rows)
        lines = [head + (f"  {'peer':>8} {'spread':>6} {'TTFT ms':>8}  {'ours/peer':>9}" if peers else "")]
        for row in self.rows:
            line = f"{row.row:<3} {row.what:<26} {row.unit:<5}  {_cells(row.ours)}"
            lines.append(line + (f"  {_cells(row.peer)}  {row.ratio:>9.2f}" if row.peer else ""))
        lines += [note for row in self.rows for note in _notes(row)]
        return "\n".join(lines)


def _cells(figures: Figures) -> str:
    spread = "" if figures.spread is None else f"{figures.spread:.0%}"
    return f"{figures.median:>8.4g} {spread:>6} {figures.ttft_ms:>8.1f}"


def _notes(row: RowReport) -> list[str]:
    """Where a server stopped before it was asked to, its figures stand for less work."""
    sides = [("ours", row.ours), *([("peer", row.peer)] if row.peer else [])]
    return [
        f"row {row.row}: {name} gave {min(figures.output_tokens)} of {figures.output_tokens_asked} output tokens"
        for name, figures in sides
        if min(figures.output_tokens) < figures.output_tokens_asked
    ]
