"""Commands as ``sphinx_click`` shows them, but without what they have in common: the options that are settings.

Those have a page of their own. A command that takes them says so.
"""

from __future__ import annotations

import click
from sphinx.application import Sphinx

from sgframe.assembly.settings import KEYS

SAYS_SO = "Each :doc:`setting </reference/settings>` is an option of this command, too."


def shorten(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Called with the lines of a command's description, before its options are asked for."""
    command = context.command
    kept = [each for each in command.params if each.name not in KEYS]
    if len(kept) < len(command.params):
        lines += [SAYS_SO, ""]
    command.params = kept
    for option in kept:
        option.metavar = option.make_metavar(context)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("sphinx-click-process-description", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
