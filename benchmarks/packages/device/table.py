"""The final table: what was checked and measured, and in how far it held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from device.rows import FAILED, MEASURED, MISSED, NOT_RUN, OK, Row
from device.sections import Outcome

_HEAD = ("", "value", "unit", "ratio", "of", "aim", "", "")


def table(outcomes: Sequence[Outcome]) -> str:
    """All rows, section by section, in columns that fit them; then how many of each verdict."""
    cells = {outcome.name: [_cells(row) for row in outcome.rows] for outcome in outcomes}
    every = [_HEAD, *(line for lines in cells.values() for line in lines)]
    widths = [max(len(line[column]) for line in every) for column in range(len(_HEAD))]
    lines = [_line(_HEAD, widths)]
    for outcome in outcomes:
        lines.append(f"{outcome.name}, {outcome.seconds:.0f} s")
        lines += [_line(line, widths) for line in cells[outcome.name]]
    return "\n".join([*lines, summary(row for outcome in outcomes for row in outcome.rows)])


def summary(rows: Iterable[Row]) -> str:
    """One line, such as ``31 ok, 1 FAILED, 2 missed the aim``."""
    words = {OK: "ok", FAILED: "FAILED", NOT_RUN: "not run", MISSED: "missed the aim", MEASURED: "without an aim"}
    verdicts = [row.verdict for row in rows]
    counts = [f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts]
    return ", ".join(counts) or "nothing was checked"


def _cells(row: Row) -> tuple[str, ...]:
    value = "" if row.value is None else f"{row.value:,.4g}" if abs(row.value) < 1000 else f"{row.value:,.0f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, value, row.unit, ratio, row.against, row.aim, row.verdict, row.note


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Numbers to the right, words to the left; the last column may be as long as it is."""
    what, value, unit, ratio, against, aim, verdict, note = cells
    w = widths
    line = f"  {what:<{w[0]}}  {value:>{w[1]}} {unit:<{w[2]}}  {ratio:>{w[3]}} {against:<{w[4]}}"
    return f"{line}  {aim:<{w[5]}}  {verdict:<{w[6]}}  {note}".rstrip()
