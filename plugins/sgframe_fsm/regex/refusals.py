"""How a regex is refused: what was found where, and what to write instead."""

from __future__ import annotations

from sgframe_fsm.errors import InvalidRegex, UnsupportedRegex

_SHOWN = 80
"""Most characters of a pattern in a message."""


def invalid(pattern: str, position: int, problem: str, remedy: str) -> InvalidRegex:
    """``pattern`` is malformed at ``position``, in characters from 0."""
    return InvalidRegex(_message(pattern, position, problem, remedy))


def unsupported(pattern: str, position: int, problem: str, remedy: str) -> UnsupportedRegex:
    """What stands at ``position`` of ``pattern`` cannot be honoured."""
    return UnsupportedRegex(_message(pattern, position, problem, remedy))


def shown(pattern: str) -> str:
    """``pattern`` for a message: what it begins with."""
    return pattern if len(pattern) <= _SHOWN else pattern[: _SHOWN - 1] + "…"


def _message(pattern: str, position: int, problem: str, remedy: str) -> str:
    return f"{problem} at position {position} (in characters, from 0) of the regex {shown(pattern)!r}: {remedy}"
