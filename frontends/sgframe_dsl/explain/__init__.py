"""Pictures of runs: in the terminal, as SVG, as a page. Knows traces, not what runs programs."""

from sgframe_dsl.explain.page import html as html
from sgframe_dsl.explain.picture import svg as svg
from sgframe_dsl.explain.terminal import render as render

__all__ = ["html", "render", "svg"]
