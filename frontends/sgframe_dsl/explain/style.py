"""How runs look on light and on dark paper, for the picture and the page it stands in."""

from __future__ import annotations

FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
LIGHT = {
    "paper": "#fff",
    "ink": "#1f2328",
    "muted": "#656d76",
    "line": "#e1e4e8",
    "guide": "#afb8c1",
    "bad": "#cf222e",
    "chosen": "#1a7f37",
    "computed": "#1f6feb",
    "reused": "#c3d9f8",
    "sent": "#9aa4ae",
    "scored": "#8250df",
    "generated": "#e8710a",
    "forced": "#f9cfa3",
}
DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "muted": "#8d96a0",
    "line": "#262c36",
    "guide": "#56606b",
    "bad": "#ff7b72",
    "chosen": "#3fb950",
    "computed": "#4493f8",
    "reused": "#1f3c66",
    "sent": "#6a747e",
    "scored": "#a371f7",
    "generated": "#f0883e",
    "forced": "#70451c",
}
_STROKES = {"line": "1", "guide": "1.2"}


def picture_style() -> str:
    """A ``style`` element; it holds for what stands in an element of class ``sgf-runs`` alone."""
    fixed = (
        f".sgf-runs text{{font:11px {FONT};white-space:pre}}.sgf-runs .title{{font-size:13px;font-weight:bold}}"
        ".sgf-runs .bold{font-weight:bold}.sgf-runs .small{font-size:9px}"
        ".sgf-runs .right{text-anchor:end}.sgf-runs .middle{text-anchor:middle}"
        ".sgf-runs .lost .ink,.sgf-runs .lost .muted{fill-opacity:.6}"
        ".sgf-runs .hit{fill:none;pointer-events:all}.sgf-runs .dashed{stroke-dasharray:2 3}"
    )
    return f"<style>{fixed}{_colors(LIGHT)}@media(prefers-color-scheme:dark){{{_colors(DARK)}}}</style>"


def _colors(palette: dict[str, str]) -> str:
    fills = "".join(f".sgf-runs .{name}{{fill:{color}}}" for name, color in palette.items() if name not in _STROKES)
    lines = "".join(
        f".sgf-runs .{name}{{fill:none;stroke:{palette[name]};stroke-width:{width}}}"
        for name, width in _STROKES.items()
    )
    return f"{fills}{lines}.sgf-runs .badge{{fill:{palette['paper']};stroke:{palette['guide']}}}"
