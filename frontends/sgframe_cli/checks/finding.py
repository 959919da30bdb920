"""One thing that was looked at: what was found, how bad it is, what to do."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.Enum):
    """``WARNING``: serving works, but less well than it could. ``FAULT``: with these settings it would fail."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Finding:
    """``area`` groups findings; ``remedy`` is empty where there is nothing to do."""

    area: str
    subject: str
    found: str
    state: State = State.OK
    remedy: str = ""


def sized(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
