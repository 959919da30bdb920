"""What the runs come to: medians, ratios, tokens and round trips; as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from drive.columns import aligned
from drive.machine import Machine
from drive.programs_rows import Row
from drive.programs_select import Selects
from drive.programs_sides import Measured

Runs = Sequence[Measured]


class RowReport(msgspec.Struct, frozen=True, kw_only=True):
    """One row, run by run: ``dsl`` and ``plain`` on our server, ``peer`` the plain calls there if there is one.

    ``gain`` is how many times as long the plain calls take as the language, ``gain_on_peer`` how many times as long the peer
    does, both of the medians; ``prefilled`` and ``prefilled_plain`` are prompt tokens computed by the fewest that would do.
    """

    row: str
    what: str
    programs: int
    dsl: list[Measured]
    plain: list[Measured]
    peer: list[Measured] | None
    gain: float
    gain_on_peer: float | None
    prefilled: float
    prefilled_plain: float | None

    @classmethod
    def of(cls, row: Row, programs: int, dsl: Runs, plain: Runs, peer: Runs) -> RowReport:
        """``peer`` is empty where there is none."""
        fewest = sum(run.fewest_tokens or 0 for run in dsl)
        known = [run.prefilled_tokens for run in plain if run.prefilled_tokens is not None]
        return cls(
            row=row.name,
            what=row.what,
            programs=programs,
            dsl=list(dsl),
            plain=list(plain),
            peer=list(peer) or None,
            gain=seconds(plain) / seconds(dsl),
            gain_on_peer=seconds(peer) / seconds(dsl) if peer else None,
            prefilled=sum(run.prefilled_tokens or 0 for run in dsl) / fewest,
            prefilled_plain=sum(known) / fewest if len(known) == len(plain) else None,
        )


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``ways`` tell by side how plain calls compared options and drew samples."""

    machine: Machine
    seed: int
    runs: int
    scale: float
    concurrency: int
    ways: dict[str, str]
    rows: list[RowReport]
    selects: list[Selects]

    def tables(self) -> str:
        """All of it, to be read."""
        blocks = []
        if self.rows:
            ways = [f"plain calls on {side}: {way}" for side, way in self.ways.items()]
            blocks += [_times(self.rows), _tokens(self.rows), "\n".join(ways)]
        if self.selects:
            blocks.append(_selects(self.selects))
        return "\n\n".join(blocks)


def seconds(runs: Runs) -> float:
    """The median of the runs."""
    return median(run.seconds for run in runs)


def _times(rows: Sequence[RowReport]) -> str:
    lines = [["row", "", "programs", "dsl s", "plain s", "peer s", "plain/dsl", "peer/dsl"]]
    for row in rows:
        times = [f"{seconds(row.dsl):.3f}", f"{seconds(row.plain):.3f}", f"{seconds(row.peer):.3f}" if row.peer else ""]
        on_peer = "" if row.gain_on_peer is None else f"{row.gain_on_peer:.2f}"
        lines.append([row.row, row.what, str(row.programs), *times, f"{row.gain:.2f}", on_peer])
    return aligned(lines)


def _tokens(rows: Sequence[RowReport]) -> str:
    """Of the last run."""
    sides = ["dsl", "plain", "peer"]
    lines = [["row", "prefilled:", "fewest", "dsl", "ratio", "plain", "ratio", "output:", *sides, "trips:", *sides]]
    for row in rows:
        dsl, plain, peer = row.dsl[-1], row.plain[-1], row.peer[-1] if row.peer else None
        ratio = "" if row.prefilled_plain is None else f"{row.prefilled_plain:.3f}"
        prefilled = [_known(dsl.prefilled_tokens), f"{row.prefilled:.3f}", _known(plain.prefilled_tokens), ratio]
        outputs = [_known(side.output_tokens if side else None) for side in (dsl, plain, peer)]
        trips = [_known(side.round_trips if side else None) for side in (dsl, plain, peer)]
        lines.append([row.row, "", _known(dsl.fewest_tokens), *prefilled, "", *outputs, "", *trips])
    return aligned(lines)


def _selects(selects: Sequence[Selects]) -> str:
    lines = [["select from", "prompt", "four ms", "one ms", "four/one", "trips"]]
    for one in selects:
        prompt = "cached" if one.cached else "new"
        times = [f"{median(one.four_ms):.1f}", f"{median(one.one_ms):.1f}", f"{one.ratio:.2f}"]
        lines.append([one.options, prompt, *times, f"{one.round_trips:g}"])
    return aligned(lines)


def _known(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
