"""Draws a report: each engine's figure by the best peer's, row by row. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from drive.report import RowReport

FORMATS = (".png", ".svg")


def refusal(file: Path) -> str | None:
    """Why nothing can be drawn to ``file``."""
    if file.suffix.lower() not in FORMATS:
        return f"{file}: a plot is written as {' or '.join(FORMATS)}, found '{file.suffix}'"
    if find_spec("matplotlib") is None:
        return "--plot needs matplotlib: pip install 'sgframe[plot]'"
    return None


def draw(rows: Sequence[RowReport], file: Path) -> None:
    """Rows that no peer has are by our own figure."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    names = list(dict.fromkeys(name for row in rows for name in row.engines))
    width = 0.8 / max(1, len(names))
    figure = Figure(figsize=(max(5.0, 1.2 * len(rows)), 4), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(names):
        places = [place for place, row in enumerate(rows) if name in row.engines]
        shares = [_share(rows[place], name) for place in places]
        lefts = [place + (number - (len(names) - 1) / 2) * width for place in places]
        axes.bar(lefts, shares, width, label=name)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), labels=[row.row for row in rows])
    axes.set(xlabel="row", ylabel="by the best peer's figure", ylim=(0, None))
    axes.legend(fontsize="small")
    with mpl.rc_context({"svg.hashsalt": "sgframe", "svg.fonttype": "none"}):  # the same report gives the same file
        figure.savefig(file, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def _share(row: RowReport, name: str) -> float:
    base = row.best or next(iter(row.engines))
    return row.engines[name].median / row.engines[base].median
