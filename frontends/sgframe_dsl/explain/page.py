"""Runs as one page: for each its picture, and a table of its steps. The page needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from sgframe_dsl.explain.layout import Row, layout
from sgframe_dsl.explain.picture import svg
from sgframe_dsl.explain.style import DARK, FONT, LIGHT
from sgframe_dsl.explain.words import clean, computed, counted, duration, fault, subject, totals
from sgframe_dsl.trace import Step, Trace

_TEXTS = ("step", "line", "prompt ends", "answer begins", "why no more reused")
_NUMBERS = ("prompt", "reused", "computed", "generated", "forced", "began", "took")


def html(*traces: Trace) -> str:
    """A document of its own."""
    names = ", ".join(dict.fromkeys(clean(trace.program) for trace in traces))
    lines = [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">',
        f"<title>{escape(names) or 'no runs'}</title>\n{_style()}",
        f"<p>{counted(len(traces), 'run')}: {totals(*traces)}</p>",
    ]
    for trace in traces:
        lines += [f"<section>\n{svg(trace)}", *_table(trace), "</section>"]
    return "\n".join([*lines, "</html>\n"])


def _style() -> str:
    fixed = (
        f"body{{margin:24px auto;max-width:1120px;font:13px/1.5 {FONT}}}.sgf-runs{{max-width:100%;height:auto}}"
        "section{margin:32px 0;overflow-x:auto}table{border-collapse:collapse;font-size:11px}summary{cursor:pointer}"
        "th,td{padding:2px 8px;vertical-align:top;white-space:pre}.text{text-align:left;white-space:pre-wrap;min-width:6em}"
        ".text:first-child{white-space:pre}.number{text-align:right}"
    )
    return f"<style>{fixed}{_colors(LIGHT)}@media(prefers-color-scheme:dark){{{_colors(DARK)}}}</style>"


def _colors(palette: dict[str, str]) -> str:
    return (
        f"body{{color:{palette['ink']};background:{palette['paper']}}}th{{color:{palette['muted']}}}"
        f"td{{border-top:1px solid {palette['line']}}}.fault{{color:{palette['bad']}}}"
    )


def _table(trace: Trace) -> Iterator[str]:
    rows = layout(trace.steps).rows
    if not rows:
        return
    yield "<details open><summary>steps</summary><table>"
    yield f"<tr>{_cells('th', 'text', _TEXTS)}{_cells('th', 'number', _NUMBERS)}</tr>"
    for row in rows:
        style = ' class="fault"' if row.step and fault(row.step) else ""
        texts, numbers = _cells("td", "text", _texts(row)), _cells("td", "number", _numbers(row.step))
        yield f"<tr{style}>{texts}{numbers}</tr>"
    yield "</table></details>"


def _cells(tag: str, style: str, texts: Iterable[str]) -> str:
    return "".join(f'<{tag} class="{style}">{escape(text)}</{tag}>' for text in texts)


def _texts(row: Row) -> Iterator[str]:
    """What stands below ``_TEXTS``."""
    step = row.step
    branch = f"{row.branch} {'✓ ' if row.chosen else ''}" if row.branch >= 0 else ""
    yield "    " * row.depth + branch + (f"{step.kind} {subject(step)}".rstrip() if step else "asked nothing")
    if step:
        yield clean(step.line)
        yield clean(step.prompt)
        yield fault(step) or clean(step.answer)
        yield clean(step.cost.cache_reason) if step.cost else ""


def _numbers(step: Step | None) -> Iterator[str]:
    """What stands below ``_NUMBERS``."""
    if step is None:
        return
    if cost := step.cost:
        counts = (cost.prompt_tokens, cost.cached_tokens, computed(cost), cost.output_tokens, cost.forced_tokens)
        yield from ("?" if count is None else f"{count:,}" for count in counts)
    else:
        yield from [""] * 5
    yield duration(step.started)
    yield duration(step.seconds) if step.ended >= 0 else ""
