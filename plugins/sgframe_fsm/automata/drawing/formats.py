"""The files a picture comes in: SVG and PNG, and the text that Graphviz lays out itself."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path

from sgframe.errors import ConfigError
from sgframe_fsm.automata.automaton import Automaton
from sgframe_fsm.automata.drawing.labels import text_of
from sgframe_fsm.automata.drawing.picture import RADIUS, Circle, Curve, Picture, Text

FORMATS = (".svg", ".png", ".dot")
_STYLE = (
    "<style>circle{fill:#fff;stroke:#333;stroke-width:1.4}path{fill:none;stroke:#667;stroke-width:1.2;marker-end:url(#head)}"
    "text{font:11px ui-monospace,monospace;fill:#124;text-anchor:middle;stroke:#fff;stroke-width:3px;paint-order:stroke}"
    ".title{font-size:13px;font-weight:bold}</style>"
)
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" style="fill:#667;stroke:none;marker-end:none"/></marker></defs>'
)


def require_format(file: Path) -> None:
    """Raise ConfigError if nothing can be drawn to ``file``."""
    if file.suffix.lower() not in FORMATS:
        raise ConfigError(f"{file}: an automaton is drawn as {', '.join(FORMATS)}, found '{file.suffix}'")
    if not file.parent.is_dir():
        raise ConfigError(f"{file}: there is no folder {file.parent}; make it, or choose another")
    if file.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise ConfigError(f"{file}: a PNG needs matplotlib: pip install 'sgframe[plot]'; an SVG needs nothing")


def svg(picture: Picture) -> str:
    """The picture as a document of its own."""
    size = f'width="{picture.width:.0f}" height="{picture.height:.0f}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', _STYLE, _HEAD]
    lines.append(f'<rect {size} fill="#fff"/>')
    lines += map(_svg_curve, picture.curves)
    lines += map(_svg_circle, picture.circles)
    lines += map(_svg_text, picture.texts)
    return "\n".join([*lines, "</svg>\n"])


def _svg_curve(curve: Curve) -> str:
    start, *rest = (f"{x:.1f} {y:.1f}" for x, y in curve.points)
    return f'<path d="M{start}C{" ".join(rest)}"/>'


def _svg_circle(circle: Circle) -> str:
    x, y = circle.center
    rings = [RADIUS, RADIUS - 3.5] if circle.accepting else [RADIUS]
    drawn = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for radius in rings)
    return drawn + _svg_text(Text((x, y + 4), circle.name))


def _svg_text(text: Text) -> str:
    style = ' class="title"' if text.title else ""
    return f'<text x="{text.at[0]:.1f}" y="{text.at[1]:.1f}"{style}>{escape(text.text, quote=False)}</text>'


def write_png(picture: Picture, file: Path) -> None:
    """Needs matplotlib (the extra ``plot``)."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.patches import Circle as Disc  # noqa: PLC0415
    from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415
    from matplotlib.path import Path as Line  # noqa: PLC0415

    figure = Figure(figsize=(picture.width / 100, picture.height / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, picture.width), ylim=(picture.height, 0))
    axes.axis("off")
    for curve in picture.curves:
        line = Line(curve.points, [Line.MOVETO, *[Line.CURVE4] * (len(curve.points) - 1)])
        axes.add_patch(FancyArrowPatch(path=line, arrowstyle="-|>", mutation_scale=9, color="#666677", lw=1))
    for circle in picture.circles:
        for radius in (RADIUS, RADIUS - 3.5)[: 1 + circle.accepting]:
            axes.add_patch(Disc(circle.center, radius, facecolor="white", edgecolor="#333333"))
        axes.text(*circle.center, circle.name, ha="center", va="center", fontsize=8, family="monospace")
    halo = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
    for text in picture.texts:
        weight = "bold" if text.title else "normal"
        axes.text(
            *text.at,
            text.text,
            ha="center",
            va="bottom",
            fontsize=8,
            weight=weight,
            family="monospace",
            bbox=halo,
            parse_math=False,
        )
    figure.savefig(file)


def dot(automata: Sequence[tuple[str, Automaton]]) -> str:
    """Each automaton as a cluster of one graph, for Graphviz."""
    lines = ["digraph automata {", "  rankdir=LR; edge [fontname=monospace];"]
    for number, (title, automaton) in enumerate(automata):
        lines.append(f"  subgraph cluster_{number} {{ label={_quoted(title)};")
        for source, edges in enumerate(automaton.edges):
            shape = "doublecircle" if automaton.accepting[source] else "circle"
            lines.append(f'    s{number}_{source} [label="{source}", shape={shape}];')
            for label, target in edges.items():
                lines.append(f"    s{number}_{source} -> s{number}_{target} [label={_quoted(text_of(label))}];")
        lines.append("  }")
    return "\n".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
