"""The directive ``exports``: everything that a module names in ``__all__``, from docstrings.

For modules whose names are imported when they are first asked for, which ``automodule`` does not find.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def described(module: str) -> Iterator[str]:
    """A directive of autodoc for each exported name, the classes first."""
    exporting = import_module(module)
    kinds = {name: _kind(getattr(exporting, name)) for name in sorted(exporting.__all__)}
    yield f".. py:currentmodule:: {module}"
    for name, kind in sorted(kinds.items(), key=lambda item: item[1]):
        yield f".. auto{kind}:: {module}.{name}"


def _kind(exported: object) -> str:
    if inspect.isclass(exported):
        return "class"
    return "function" if inspect.isfunction(exported) else "data"


class Exports(SphinxDirective):
    """``{exports} MODULE``."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(["```{eval-rst}", *described(self.arguments[0]), "```"]))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exports", Exports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
