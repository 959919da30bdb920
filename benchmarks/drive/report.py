"""What the runs come to: medians, spread, ratios; as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from drive.client import Answer
from drive.machine import Machine
from drive.rows import Row
from drive.schemas import is_valid


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one row. ``values`` has the row's figure for each run; ``spread`` is their range by their median.
    ``requests`` and ``output_tokens_asked`` are those of a run; ``output_tokens`` came in each of the runs, and so many
    ``valid`` answers where the row has a schema."""

    median: float
    spread: float | None
    values: list[float]
    ttft_ms: float
    requests: int
    prompt_tokens: int
    output_tokens: list[int]
    output_tokens_asked: int
    valid: list[int] | None

    @classmethod
    def of(cls, row: Row, runs: Sequence[Sequence[Answer]]) -> Figures:
        values = [row.figure(answers) for answers in runs]
        every = [answer for answers in runs for answer in answers]
        return cls(
            median=median(values),
            spread=(max(values) - min(values)) / median(values) if len(values) > 1 else None,
            values=values,
            ttft_ms=1000 * median(answer.first - answer.sent for answer in every),
            requests=row.requests,
            prompt_tokens=round(median(answer.prompt_tokens for answer in every)),
            output_tokens=[sum(answer.tokens for answer in answers) for answers in runs],
            output_tokens_asked=row.requests * row.output,
            valid=[sum(is_valid(one.text, row.schema) for one in answers) for answers in runs] if row.schema else None,
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
    sides = [("ours", row.ours), *([("peer", row.peer)] if row.peer else [])]
    return [f"row {row.row}: {name} gave {note}" for name, figures in sides if (note := _note(figures))]


def _note(figures: Figures) -> str:
    """Where a server stopped before it was asked to, its figures stand for less work; where it had to end by itself, for
    as many tokens as it took."""
    if figures.valid is not None:
        answers = figures.requests * len(figures.values)
        return (
            f"{sum(figures.valid)} valid answers of {answers}, {sum(figures.output_tokens) / answers:.1f} tokens each"
        )
    least = min(figures.output_tokens)
    return f"{least} of {figures.output_tokens_asked} output tokens" if least < figures.output_tokens_asked else ""
