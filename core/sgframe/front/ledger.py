"""The memory ledger as lines of text."""

from __future__ import annotations

from sgframe.messages import Loaded

MIB = 2**20


def ledger_lines(loaded: Loaded) -> list[str]:
    """One aligned line per entry, and their sum."""
    width = max(len(line.name) for line in loaded.ledger)
    lines = []
    for line in loaded.ledger:
        note = f", {line.note}" if line.note else ""
        lines.append(f"memory: {line.name:<{width}} {line.bytes / MIB:>9,.1f} MiB  {line.origin}{note}")
    total = sum(line.bytes for line in loaded.ledger)
    return [*lines, f"memory: {'total':<{width}} {total / MIB:>9,.1f} MiB"]
