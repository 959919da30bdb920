"""Draws runs over the size of the cache: hit rate and time to first token. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgframe.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")


def require_plot(file: Path) -> None:
    """Raise ConfigError if nothing can be drawn to ``file``."""
    if file.suffix.lower() not in FORMATS:
        raise ConfigError(f"{file}: a plot is written as {' or '.join(FORMATS)}, found '{file.suffix}'")
    if not file.parent.is_dir():
        raise ConfigError(f"{file}: there is no folder {file.parent}; make it, or choose another")
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install 'sgframe[plot]'")


def draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """``rows`` as ``Run.row`` gives them."""
    import matplotlib as mpl  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import LogLocator, StrMethodFormatter  # noqa: PLC0415

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    hits, times = figure.subplots(1, 2)
    _draw_bounds(hits, rows)
    for name, line in _lines(rows).items():
        slots = [row["slots"] for row in line]
        drawn = hits.plot(slots, [row["hit_rate"] for row in line], marker="o", label=name)[0]
        color = drawn.get_color()
        times.plot(slots, [row["ttft_p50"] for row in line], marker="o", color=color, label=f"{name}, median")
        times.plot(slots, [row["ttft_p99"] for row in line], "--", marker=".", color=color, label=f"{name}, 99 %")
    hits.set(ylabel="hit rate (% of prompt tokens)", ylim=(0, None))
    times.set(ylabel="time to first token (s)", yscale="log")
    times.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    times.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axes in (hits, times):
        axes.set(xlabel="cache (slots, one a token)", xscale="log")
        axes.set_xticks(sorted({row["slots"] for row in rows}), labels=_sizes(rows), minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    with mpl.rc_context({"svg.hashsalt": "sgframe", "svg.fonttype": "none"}):  # the same runs give the same file
        figure.savefig(file, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def _draw_bounds(axes: Axes, rows: Sequence[dict[str, Any]]) -> None:
    """The band between Belady and an infinite cache: what more memory alone could bring in the trace's order."""
    by_size = sorted({row["slots"]: row for row in rows}.items())
    slots = [size for size, _ in by_size]
    belady = [row["belady_hit_rate"] for _, row in by_size]
    infinite = [row["infinite_hit_rate"] for _, row in by_size]
    axes.plot(slots, belady, ":", color="black", marker="x", label="Belady")
    axes.fill_between(slots, belady, infinite, color="gray", alpha=0.2)
    axes.axhline(infinite[0], color="gray", label="infinite cache")


def _lines(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each combination of parts, by growing size."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["slots"])):
        parts = (row["policy"], row["cache"], row["eviction"])
        lines.setdefault(" ".join(filter(None, parts)), []).append(row)
    return lines


def _sizes(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{slots / 1024:,.0f}k" for slots in sorted({row["slots"] for row in rows})]
