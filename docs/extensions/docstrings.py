"""Docstrings as this project writes them: sections such as ``Attributes:`` are read, by Sphinx's own reader of them.

The reader's extension would do more than that: of a property it takes what stands before the first colon for a type.
"""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring


def read_sections(app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]) -> None:
    """Called for each docstring, whose ``lines`` are changed in place."""
    lines[:] = GoogleDocstring(lines).lines()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", read_sections)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
