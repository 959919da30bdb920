"""Draws stacked bars. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bar:
    """What stands one after the other, by part."""

    label: str
    parts: Mapping[str, float]


def draw(bars: Sequence[Bar], unit: str, file: Path) -> None:
    """One bar below the other, of so many of ``unit``; a part has the same colour in all."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 1.6 + 0.36 * len(bars)), layout="constrained")
    axes = figure.subplots()
    places = range(len(bars))
    begins = [0.0] * len(bars)
    for number, part in enumerate(dict.fromkeys(part for bar in bars for part in bar.parts)):
        widths = [bar.parts.get(part, 0.0) for bar in bars]
        axes.barh(places, widths, left=begins, color=mpl.colormaps["tab20"](number % 20), label=part)
        begins = [begin + width for begin, width in zip(begins, widths, strict=True)]
    axes.set_yticks(places, labels=[bar.label for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)
    with mpl.rc_context({"svg.hashsalt": "sgframe", "svg.fonttype": "none"}):  # the same bars give the same file
        figure.savefig(file, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)
