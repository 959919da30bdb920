"""One line of the final table, and the file in which a section leaves its lines as it goes. Knows no torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

OK, FAILED, MISSED, NOT_RUN, MEASURED = "ok", "FAILED", "missed", "not run", ""
"""A verdict: a check that held or did not, an aim that was met (ok) or missed, a thing not done, a figure without an aim."""


@dataclass(frozen=True, slots=True)
class Row:
    """A check or a figure. ``ratio`` is ``value`` by what ``against`` names; ``aim`` says what one of the two should be."""

    what: str
    verdict: str = MEASURED
    value: float | None = None
    unit: str = ""
    ratio: float | None = None
    against: str = ""
    aim: str = ""
    note: str = ""


Report = Callable[[Row], None]
"""Takes the rows of a section, one by one."""


def checked(what: str, fault: str, note: str = "") -> Row:
    """A check that held unless it has a ``fault``."""
    return Row(what, FAILED if fault else OK, note=fault or note)


def compared(
    what: str, value: float, unit: str, limit: float, against: str, least: float | None = None, note: str = ""
) -> Row:
    """``value`` by ``limit``, in the same unit; the ratio should be ``least`` or more."""
    ratio = value / limit
    verdict = MEASURED if least is None else OK if ratio >= least else MISSED
    return Row(what, verdict, value, unit, ratio, against, "" if least is None else f"≥ {least:.0%}", note)


def bounded(what: str, value: float, unit: str, most: float | None, note: str = "") -> Row:
    """``value`` should be ``most`` or less."""
    verdict = MEASURED if most is None else OK if value <= most else MISSED
    return Row(what, verdict, value, unit, aim="" if most is None else f"≤ {most:g}", note=note)


class RowFile:
    """The file through which a section's process hands its rows over. What is written stays, whatever ends the process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, row: Row) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")

    def read(self) -> list[Row]:
        """The rows so far; a last line that was cut off is left out."""
        lines = self._path.read_text().split("\n")[:-1] if self._path.exists() else []
        return [Row(**json.loads(line)) for line in lines]
