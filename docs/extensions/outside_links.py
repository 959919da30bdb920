"""Links from pages to what lies in the repository but not on the site: they become that path.

On a page that is read as a file, ``[examples](../examples)`` is a link; here it reads "examples (``examples``)". A link to
nothing stays what Sphinx warns of.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class OutsideLinks(SphinxTransform):
    """Runs before Sphinx copies the files that are linked to."""

    default_priority: ClassVar[int] = 5

    def apply(self, **options: Any) -> None:
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for link in list(self.document.findall(kind)):
                suffix = ".md" if link.get("refdomain") == "doc" else ""
                if link.get("reftype") == "myst" and (path := self._outside(link["reftarget"] + suffix)):
                    link.replace_self(_named(link, path))

    def _outside(self, target: str) -> str:
        """The path in the repository, if ``target`` is one that lies outside of the pages."""
        pages = Path(self.env.srcdir)
        file = Path(os.path.normpath(Path(self.env.doc2path(self.env.docname)).parent / target))
        inside = file.is_relative_to(pages) or not file.is_relative_to(pages.parent)
        return "" if inside or not file.exists() else str(file.relative_to(pages.parent))


def _named(link: nodes.Element, path: str) -> list[nodes.Node]:
    if link.astext() == path:
        return [nodes.literal(path, path)]
    return [*link.children, nodes.Text(" ("), nodes.literal(path, path), nodes.Text(")")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(OutsideLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
