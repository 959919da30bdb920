"""Counts the calls of sgframe's hooks in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pluggy


@contextmanager
def hook_calls() -> Iterator[list[str]]:
    """The names of hooks as they are called, by any plugin manager that is made in this context."""
    calls: list[str] = []
    make = pluggy.PluginManager.__init__

    def make_watched(manager: pluggy.PluginManager, *arguments: Any) -> None:
        make(manager, *arguments)
        manager.add_hookcall_monitoring(lambda name, *_: calls.append(name), lambda *_: None)

    with patch.object(pluggy.PluginManager, "__init__", make_watched):
        yield calls
