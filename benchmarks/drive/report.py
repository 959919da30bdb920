"""What the runs come to: medians, spread, ratios; as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from statistics import median

import msgspec

from drive.columns import aligned
from drive.limits import Limits
from drive.machine import Machine
from drive.outcome import Outcome, Workload
from drive.sides import Side


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One server in one row. ``values`` has the row's figure for each run; ``spread`` is their range by their median.
    ``requests`` and ``output_tokens_asked`` are those of a run; ``output_tokens`` came in each of the runs, and so many
    ``valid`` answers where the row has a schema. Times to first token are over the requests of all runs."""

    median: float
    spread: float | None
    values: list[float]
    ttft_ms: float | None
    ttft_p99_ms: float | None
    requests: int
    prompt_tokens: int
    output_tokens: list[int]
    output_tokens_asked: int
    valid: list[int] | None

    @classmethod
    def of(cls, row: Workload, runs: Sequence[Outcome]) -> Figures:
        values = [run.value for run in runs]
        times = sorted(1000 * seconds for run in runs for seconds in run.first_tokens)
        valid = [run.valid for run in runs if run.valid is not None]
        return cls(
            median=median(values),
            spread=(max(values) - min(values)) / median(values) if len(values) > 1 else None,
            values=values,
            ttft_ms=median(times) if times else None,
            ttft_p99_ms=times[ceil(0.99 * len(times)) - 1] if times else None,
            requests=row.requests,
            prompt_tokens=round(median(run.prompt_tokens for run in runs)),
            output_tokens=[run.output_tokens for run in runs],
            output_tokens_asked=row.output_tokens,
            valid=valid or None,
        )


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """``engines`` by name, ours among them; ``ratios`` are ours by each peer's, ``best`` is the peer with the
    highest figure."""

    row: str
    what: str
    unit: str
    engines: dict[str, Figures]
    ratios: dict[str, float]
    best: str | None

    @classmethod
    def of(cls, row: Workload, sides: Sequence[Side]) -> RowReport:
        engines = {side.name: Figures.of(row, side.outcomes[row.name]) for side in sides if row.name in side.outcomes}
        ours = next((side.name for side in sides if side.ours), None)
        peers = [name for name in engines if name != ours]
        ratios = {name: engines[ours].median / engines[name].median for name in peers if ours in engines}
        best = max(peers, key=lambda name: engines[name].median, default=None)
        return cls(row=row.name, what=row.what, unit=row.unit, engines=engines, ratios=ratios, best=best)


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of each start: seconds from start to ready, and bytes of all processes after the rows, by proportional set size."""

    title: str
    version: str
    seconds_to_ready: list[float]
    memory_bytes: list[int]
    seconds_waited_for_quiet: list[float]
    always_quiet: bool
    left_out: dict[str, str]
    failures: list[str]

    @classmethod
    def of(cls, side: Side, rows: Sequence[Workload]) -> ServerReport:
        return cls(
            title=side.title,
            version=side.version,
            seconds_to_ready=side.seconds_to_ready,
            memory_bytes=side.memory_bytes,
            seconds_waited_for_quiet=[waited.seconds for waited in side.waited],
            always_quiet=all(waited.quiet for waited in side.waited),
            left_out={row.name: side.cannot[row.name] for row in rows if row.name in side.cannot},
            failures=side.failures,
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``ratios`` by row: ours by the best peer's. ``limits`` were measured before each run with named peers.
    ``weights_bytes`` are those of the checkpoint, where it is known."""

    ratios: dict[str, float]
    rows: list[RowReport]
    servers: dict[str, ServerReport]
    machine: Machine
    cpus: list[int]
    threads: int
    limits: list[Limits]
    weights_bytes: int | None
    seed: int
    runs: int
    scale: float
    not_installed: list[str]

    def table(self) -> str:
        """All of it, to be read."""
        blocks = [_figures(self.rows), _servers(self.servers), "\n".join(self._notes())]
        return "\n\n".join(block for block in blocks if block)

    def _notes(self) -> list[str]:
        notes = [note for row in self.rows for note in _row_notes(row)]
        notes += self._memory_limit() + self._long_context()
        for name, server in self.servers.items():
            notes += [f"row {row}: {name} was not asked, {why}" for row, why in server.left_out.items()]
            notes += [f"{name} failed, {failure}" for failure in server.failures]
            if not server.always_quiet:
                notes.append(f"{name} was started while something else ran on this machine")
        return notes + self.not_installed

    def _memory_limit(self) -> list[str]:
        """How near one request comes to reading the weights once for each token as fast as memory gives them."""
        engines = self._engines("a")
        if not self.limits or self.weights_bytes is None or not engines:
            return []
        bound = median(limits.read_bytes_per_second for limits in self.limits) / self.weights_bytes
        shares = ", ".join(f"{name} {figures.median / bound:.0%}" for name, figures in engines.items())
        return [
            f"row a: weights of {self.weights_bytes / 1e6:.0f} MB read once a token allow {bound:.0f} tok/s: {shares}"
        ]

    def _long_context(self) -> list[str]:
        short, long = self._engines("a"), self._engines("k")
        both = [f"{name} {long[name].median / short[name].median:.2f}" for name in long if name in short]
        return [f"row k: by the engine's own row a: {', '.join(both)}"] if both else []

    def _engines(self, name: str) -> dict[str, Figures]:
        return next((row.engines for row in self.rows if row.row == name), {})


def best_ratios(rows: Sequence[RowReport]) -> dict[str, float]:
    """By row: ours by the best peer's."""
    return {row.row: row.ratios[row.best] for row in rows if row.best in row.ratios}


def _figures(rows: Sequence[RowReport]) -> str:
    """A star marks the best peer."""
    lines = [["row", "", "", "median", "unit", "spread", "TTFT ms", "p99", "ours/peer"]]
    for row in rows:
        for place, (name, figures) in enumerate(row.engines.items()):
            begin = ["", ""] if place else [row.row, row.what]
            ratio = f"{row.ratios[name]:.2f}" if name in row.ratios else ""
            star = "*" if name == row.best and len(row.ratios) > 1 else ""
            spread = "" if figures.spread is None else f"{figures.spread:.0%}"
            times = ["" if time is None else f"{time:.1f}" for time in (figures.ttft_ms, figures.ttft_p99_ms)]
            lines.append([*begin, name + star, f"{figures.median:.4g}", row.unit, spread, *times, ratio])
    return aligned(lines, left=3)


def _servers(servers: dict[str, ServerReport]) -> str:
    lines = [["server", "version", "ready s", "memory MB"]]
    for name, server in servers.items():
        if server.seconds_to_ready:
            memory = f"{median(server.memory_bytes) / 1e6:,.0f}" if server.memory_bytes else ""
            lines.append([name, server.version, f"{median(server.seconds_to_ready):.1f}", memory])
    return aligned(lines) if len(lines) > 1 else ""


def _row_notes(row: RowReport) -> list[str]:
    return [f"row {row.row}: {name} gave {note}" for name, figures in row.engines.items() if (note := _note(figures))]


def _note(figures: Figures) -> str:
    """Where a server stopped before it was asked to, its figures stand for less work; where it had to end by itself, for
    as many tokens as it took."""
    if figures.valid is not None:
        answers = figures.requests * len(figures.values)
        return (
            f"{sum(figures.valid)} valid answers of {answers}, {sum(figures.output_tokens) / answers:.1f} tokens each"
        )
    least = min(figures.output_tokens)
    return f"{least} of {figures.output_tokens_asked} output tokens" if least < figures.output_tokens_asked else ""
