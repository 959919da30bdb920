"""Contract tests and doubles for authors of parts. Import what you need; nothing is registered with pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sgframe.testing.walker import grammar_walker as grammar_walker

__all__ = ["grammar_walker"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sgframe.testing' has no attribute {name!r}")
    from sgframe.testing.walker import grammar_walker  # noqa: PLC0415  # heavy: only when asked for

    return grammar_walker
