"""Runs sections, each in a process of its own and for a limited time. Knows not what they do.

A section that fails, crashes or hangs costs its own rows and its own time, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from device.rows import FAILED, NOT_RUN, Row, RowFile

LEAST_SECONDS = 5.0
"""A section is not begun with less time than that."""
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of work for a process.

    Attributes:
        name: what it is called.
        target: ``"module:function"``, called with a Target and a Report.
        limit: seconds after which it is stopped.
        needs: import packages without which it is not begun.
        after: names of sections of earlier stages without whose success it makes no sense.
    """

    name: str
    target: str
    limit: float
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a section: its rows, one more of them for what ended it early."""

    name: str
    rows: list[Row]
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        """Whether all of it ran and no check failed."""
        return not any(row.verdict in (FAILED, NOT_RUN) for row in self.rows)


def run_stages(
    stages: Sequence[Sequence[Section]],
    command: Callable[[Section, Path, float], Sequence[str]],
    environ: Mapping[str, str],
    logs: Path,
    budget: float,
    told: Callable[[Outcome], None],
) -> list[Outcome]:
    """Run all within ``budget`` seconds: a stage's sections side by side, one stage after the other.

    ``command(section, rows, seconds)`` is what runs a section, for no longer than that; it writes a RowFile at ``rows``.
    What it prints goes to a file in ``logs``, beside its rows. ``told`` hears of each as it ends.
    """
    deadline = time.monotonic() + budget
    outcomes: dict[str, Outcome] = {}
    for stage in stages:
        for outcome in _run_stage(stage, outcomes, partial(_Running, command, environ, logs), deadline):
            outcomes[outcome.name] = outcome
            told(outcome)
    return [outcomes[section.name] for stage in stages for section in stage]


def _run_stage(
    stage: Sequence[Section],
    before: Mapping[str, Outcome],
    start: Callable[[Section, float], _Running],
    deadline: float,
) -> Iterator[Outcome]:
    """Their outcomes, as they end. None is left running, whatever becomes of this process."""
    running: list[_Running] = []
    try:
        for section in stage:
            left = deadline - time.monotonic()
            if reason := _obstacle(section, before, left):
                yield Outcome(section.name, [Row("all of it", NOT_RUN, note=reason)])
            else:
                running.append(start(section, min(section.limit, left)))
        while running:
            for each in running[:]:
                if (outcome := each.poll()) is not None:
                    running.remove(each)
                    yield outcome
            time.sleep(POLL_SECONDS)
    finally:
        for each in running:
            each.end()


def missing(packages: Sequence[str]) -> list[str]:
    """Those that cannot be imported here."""
    return [name for name in packages if find_spec(name) is None]


def _obstacle(section: Section, outcomes: Mapping[str, Outcome], left: float) -> str:
    if absent := missing(section.needs):
        return f"needs {', '.join(absent)}, not installed here"
    if failed := [name for name in section.after if name in outcomes and not outcomes[name].held]:
        return f"makes no sense without '{failed[0]}'"
    return "" if left >= LEAST_SECONDS else "no time was left for it"


class _Running:
    """A section whose process has been started."""

    def __init__(
        self,
        command: Callable[[Section, Path, float], Sequence[str]],
        environ: Mapping[str, str],
        logs: Path,
        section: Section,
        limit: float,
    ) -> None:
        self._name, self._limit, self._started = section.name, limit, time.monotonic()
        rows = logs / f"{section.name.replace(' ', '-')}.jsonl"
        rows.unlink(missing_ok=True)
        self._rows, self._log = RowFile(rows), rows.with_suffix(".log")
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command(section, rows, limit),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,  # its process id is then the id of the group of all that it starts
            )

    def poll(self) -> Outcome | None:
        """What came of it, once it has ended or its time is up."""
        code, seconds = self._process.poll(), time.monotonic() - self._started
        if code is None and seconds < self._limit:
            return None
        self.end()
        fault = f"stopped after {self._limit:.0f} s{_place(self._log)}" if code is None else _ending(code, self._log)
        rows = self._rows.read()
        if not fault and not rows:
            fault = "ended without a word"
        return Outcome(self._name, [*rows, *([Row("the section", FAILED, note=fault)] if fault else [])], seconds)

    def end(self) -> None:
        """End its process and all that this has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _ending(code: int, log: Path) -> str:
    if not code:
        return ""
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    return how + _tail(log)


def _place(log: Path) -> str:
    """Where a section was, if it printed that by ``faulthandler``: the innermost line of the thread it named last."""
    _, found, trace = log.read_text(errors="replace").rpartition("(most recent call first):\n")
    return f": {trace.splitlines()[0].strip()}" if found and trace else ""


def _tail(log: Path) -> str:
    """The last line that a section printed: the error, where it raised one."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()[:300]}" if lines else ""
