"""Rows of text in aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """One line a row, each column as wide as its longest cell, two spaces between; the last is not padded.

    What is not printable in a cell (a third party's text may hold line breaks, and what a terminal obeys) becomes a blank.
    """
    rows = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
