"""``python -m sgframe``: the command line. Core knows its frontend by name alone."""

from __future__ import annotations

from importlib import import_module

FRONTEND = "sgframe_cli"

if __name__ == "__main__":
    import_module(FRONTEND).main(prog_name="sgframe")
