"""The ``sgframe`` command. Subcommands are imported when they are called, so that help and version stay quick."""

from sgframe_cli.group import main as main

__all__ = ["main"]
