"""Runs as one SVG text: a row for each step, tokens to the right; what was reused is pale, what was computed is not.

All bars of prompts together are the tokens without sharing, so the pale area is what sharing saved. The text needs nothing
from elsewhere, and follows the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rich.cells import cell_len, set_cell_size

from sgframe_dsl.explain.layout import Fork, Layout, Row, bars, layout
from sgframe_dsl.explain.style import picture_style
from sgframe_dsl.explain.words import clean, computed, duration, excerpt, fault, quoted, subject, took, totals
from sgframe_dsl.trace import Step, Trace
from sgframe_programs.parts import Cost

WIDTH = 1120
_MARGIN = 16
_ROW = 20
_BAR = 12
_INDENT = 22
_DEEPEST = 8
"""Depth beyond which rows are not indented further, so that names stay legible."""
_PLOT, _PLOT_WIDTH = 360, 440
_COLUMNS = {"computed": 880, "reused": 952, "generated": 1032, "time": WIDTH - _MARGIN}
"""Headings of the numbers, and where these end."""
_CHARACTER = 6.7
"""Width of one; of the usual monospace fonts none is wider at this size."""
_TICKS = 6
_LEGEND = {
    "computed": "computed",
    "reused": "reused",
    "sent": "sent, reuse not told",
    "scored": "computed for choices",
    "generated": "generated",
    "forced": "written by the grammar",
}


def svg(*traces: Trace) -> str:
    """The runs one below the other, at one scale."""
    drawn = [bars(step.cost) for trace in traces for step in trace.walk() if step.cost]
    longest = max((end for placed in drawn for _, _, end in placed), default=1)
    lines = list(_legend({kind for placed in drawn for kind, _, _ in placed}))
    top = 2 * _MARGIN + _ROW
    for trace in traces:
        run = _Run(layout(trace.steps), top, longest)
        lines += [*_title(trace, top), *run.draw()]
        top = run.bottom + _MARGIN
    size = f'width="{WIDTH}" height="{top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="sgf-runs" {size} viewBox="0 0 {WIDTH} {top}">'
    return "\n".join([head, picture_style(), f'<rect class="paper" {size}/>', *lines, "</svg>\n"])


class _Run:
    """The rows of one run, below its title."""

    def __init__(self, layout: Layout, top: int, longest: int) -> None:
        self._rows = layout.rows
        self._forks = layout.forks
        self._top = top + 3 * _ROW  # of the first row
        self._longest = longest
        self.bottom = self._top + len(layout.rows) * _ROW

    def draw(self) -> Iterator[str]:
        if self._rows:
            yield from self._axis()
        for fork in self._forks:
            yield from self._hang(fork)
        for index, row in enumerate(self._rows):
            yield from self._row(row, self._middle(index))

    def _middle(self, index: int) -> int:
        return self._top + index * _ROW + _ROW // 2

    def _x(self, tokens: float) -> float:
        return _PLOT + _PLOT_WIDTH * tokens / self._longest

    def _axis(self) -> Iterator[str]:
        y = self._top - 6
        for tokens in _ticks(self._longest):
            x = self._x(tokens)
            yield f'<path class="line" d="M{x:.1f} {self._top}V{self.bottom}"/>'
            yield _text(x, y, "tokens" if not tokens else f"{tokens:,}", "muted" + (" middle" if tokens else ""))
        for heading, x in _COLUMNS.items():
            yield _text(x, y, heading, "muted right")

    def _hang(self, fork: Fork) -> Iterator[str]:
        """The line that the branches' numbers stand on, and one through the bars, where the branches part."""
        top, x = self._middle(fork.row), self._x(fork.tokens)
        yield f'<path class="guide" d="M{_left(fork.depth + 1) - 13} {top + 8}V{self._middle(fork.heads[-1])}"/>'
        yield f'<path class="guide dashed" d="M{x:.1f} {top}V{self._middle(fork.last) + _ROW // 2}"/>'
        yield f'<circle class="badge" cx="{x:.1f}" cy="{top}" r="3"/>'

    def _row(self, row: Row, y: int) -> Iterator[str]:
        yield f'<g class="{"lost" if row.lost else "row"}">'
        if row.branch >= 0:
            yield from _badge(row, y)
        if row.step is None:
            yield _text(_left(row.depth), y + 4, "asked nothing", "muted")
        else:
            yield _name(row.step, _left(row.depth), y + 4)
            yield from self._took(row.step, row.start, y)
            yield f'<rect class="hit" x="0" y="{y - _ROW // 2}" width="{WIDTH}" height="{_ROW}">{_tip(row.step)}</rect>'
        yield "</g>"

    def _took(self, step: Step, start: int, y: int) -> Iterator[str]:
        if step.cost:
            for kind, first, end in bars(step.cost):
                x, width = self._x(first), max(self._x(end) - self._x(first), 1.5)
                yield f'<rect class="{kind}" x="{x:.1f}" y="{y - _BAR // 2}" width="{width:.1f}" height="{_BAR}"/>'
            for x, number in zip(_COLUMNS.values(), _numbers(step.cost, step.seconds), strict=True):
                yield _text(x, y + 4, number, "ink right")
        elif reason := fault(step):
            x = min(self._x(start), _PLOT + _PLOT_WIDTH / 2) + 6
            yield _text(x, y + 4, _fitting(reason, WIDTH - _MARGIN - x), "bad")


def _title(trace: Trace, top: int) -> Iterator[str]:
    yield _text(_MARGIN, top + 10, _fitting(clean(trace.program), WIDTH / 2), "title ink")
    yield _text(_MARGIN, top + 10 + _ROW, totals(trace), "muted")


def _legend(kinds: set[str]) -> Iterator[str]:
    x = _MARGIN
    for kind, meaning in _LEGEND.items():
        if kind in kinds:
            yield f'<rect class="{kind}" x="{x}" y="{_MARGIN}" width="{_BAR}" height="{_BAR}"/>'
            yield _text(x + _BAR + 6, _MARGIN + 10, meaning, "ink")
            x += _BAR + 30 + round(_CHARACTER * len(meaning))


def _ticks(longest: int) -> range:
    """Round numbers of tokens from 0, at most _TICKS and one."""
    magnitude = 1
    while True:
        for factor in (1, 2, 5):
            if longest <= _TICKS * factor * magnitude:
                return range(0, longest + 1, factor * magnitude)
        magnitude *= 10


def _left(depth: int) -> int:
    """Where the names of this depth begin."""
    return _MARGIN + _INDENT * min(depth, _DEEPEST)


def _badge(row: Row, y: int) -> Iterator[str]:
    x = _left(row.depth) - 13
    yield f'<circle class="{"chosen" if row.chosen else "badge"}" cx="{x}" cy="{y}" r="8"/>'
    yield _text(x, y + 3, str(row.branch), f"{'paper' if row.chosen else 'muted'} middle small")


def _name(step: Step, x: int, y: int) -> str:
    said = (fault(step), "bad") if step.cost and fault(step) else (quoted(step.answer), "muted")
    spans, room = [], _PLOT - 10.0 - x
    for text, style in ((step.kind, "muted"), (subject(step), "bold ink"), said):
        if fitting := _fitting(text, room):
            spans.append(f'<tspan class="{style}">{escape(fitting)}</tspan>')
            room -= (cell_len(fitting) + 1) * _CHARACTER
    return f'<text x="{x}" y="{y}">{" ".join(spans)}</text>'


def _fitting(text: str, width: float) -> str:
    """``text``, without its end if it is wider than ``width`` pixels."""
    cells = int(width / _CHARACTER)
    return text if cell_len(text) <= cells else set_cell_size(text, max(cells - 1, 0)).rstrip() + "…"


def _numbers(cost: Cost, seconds: float) -> Sequence[str]:
    """Those of the columns."""
    told = computed(cost)
    reused = "?" if cost.cached_tokens is None else f"{cost.cached_tokens:,}"
    return "?" if told is None else f"{told:,}", reused, f"{cost.output_tokens:,}", duration(seconds)


def _tip(step: Step) -> str:
    """What shows when the pointer rests on a row."""
    lines = [f"{step.kind} {subject(step)}".rstrip(), clean(step.line)]
    if step.cost:
        lines += [took(step.cost), clean(step.cost.cache_reason)]
    text = "\n".join(filter(None, [*lines, excerpt(step), fault(step)]))
    return f"<title>{escape(text)}</title>"


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(text, quote=False)}</text>'
