"""Measures programs in our language beside the same ones in plain calls: ``python benchmarks/programs.py --help``."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import httpx
import msgspec
from drive.client import RequestFailed
from drive.machine import this_machine
from drive.meeting import measure_texts, meet
from drive.programs_client import Scoring
from drive.programs_report import Report, RowReport
from drive.programs_rows import ROWS, Row
from drive.programs_select import Selects, measure_selects
from drive.programs_sides import GREETING, DslSession, Measured, Session, dsl_session, plain_session
from drive.prompts import Texts
from drive.server import ServerFailed, started

from sgframe.errors import SgframeError

PEER_URL = "http://127.0.0.1:8000"
WARM_UP_PROGRAMS = 2
SELECT = "select"
SIDES = ("dsl", "plain", "peer")


@dataclass(frozen=True, slots=True)
class Place:
    """One of the two servers; without a ``command`` it runs already. ``sides`` are the ways in which it is asked."""

    name: str
    url: str
    model: str | None
    command: str | None
    sides: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: ``rows``, and ``pairs`` of selects unless it is 0."""

    rows: Sequence[Row]
    pairs: int
    concurrency: int
    scale: float
    seed: int
    scoring: Scoring


class Benchmark:
    """Runs a plan by our language and by plain calls on our server, and by plain calls on the peer, by turns.

    Texts are fitted to our server's tokenizer; all sides get the same. Those on one server have salts of their own there, so
    that neither finds in the cache what the other has computed.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._texts: Texts | None = None
        self.measured: dict[tuple[str, str], list[Measured]] = {}
        self.programs: dict[str, int] = {}
        self.selects: list[Selects] = []
        self.ways: dict[str, str] = {}

    def run(self, places: Sequence[Place], runs: int) -> None:
        """Ends the program when a server or a program fails."""
        for run in range(runs):
            for place in places:
                try:
                    with started(place.command, place.url) if place.command else nullcontext():
                        self._visit(place, run)
                except (RequestFailed, ServerFailed, SgframeError, OSError, ValueError, httpx.HTTPError) as error:
                    raise SystemExit(f"{place.name} ({place.url}): {error}") from error

    def reports(self) -> list[RowReport]:
        """One for each row."""
        return [
            RowReport.of(row, self.programs[row.name], *(self.measured.get((side, row.name), []) for side in SIDES))
            for row in self._plan.rows
        ]

    def _visit(self, place: Place, run: int) -> None:
        endpoint = asyncio.run(meet(place.url, place.model, GREETING, chat=False))
        self._texts = texts = self._texts or asyncio.run(measure_texts(endpoint, chat=False))
        for side in place.sides if run % 2 == 0 else reversed(place.sides):
            salt = f"{self._plan.seed}/{run}/{side}"
            if side == "dsl":
                with dsl_session(place.url, salt) as dsl:
                    self._measure(dsl, side, texts, run)
                    self._select(dsl, texts, run)
            else:
                own = {"cache_salt": salt} if side == "plain" else {}
                with plain_session(replace(endpoint, options=endpoint.options | own), self._plan.scoring) as plain:
                    self.ways[side] = plain.client.ways
                    self._measure(plain, side, texts, run)

    def _measure(self, session: Session, side: str, texts: Texts, run: int) -> None:
        plan = self._plan
        for row in plan.rows:
            seed = f"{plan.seed}/{run}"
            warm = row.tasks(texts, f"{seed}/{side}", plan.scale)[:WARM_UP_PROGRAMS]
            session.run(row, warm, plan.concurrency)
            tasks = row.tasks(texts, seed, plan.scale)
            measured = session.run(row, tasks, plan.concurrency)
            self.programs[row.name] = len(tasks)
            self.measured.setdefault((side, row.name), []).append(measured)
            print(f"run {run + 1}, {side}, {row.name}: {measured.seconds:.3f} s", file=sys.stderr)

    def _select(self, session: DslSession, texts: Texts, run: int) -> None:
        if self._plan.pairs:
            more = measure_selects(session.recorder, texts, f"{self._plan.seed}/{run}", self._plan.pairs)
            self.selects = [old + new for old, new in zip(self.selects, more, strict=True)] if self.selects else more


def main() -> None:
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # so that servers are ended
    options = _parser().parse_args()
    rows = [ROWS[name] for name in options.rows if name in ROWS]
    pairs = options.selects if SELECT in options.rows else 0
    plan = Plan(rows, pairs, options.concurrency, options.scale, options.seed, options.scoring)
    places = [Place("ours", options.url, options.model, options.serve, ["dsl", "plain"] if rows else ["dsl"])]
    if rows and (options.peer_url or options.peer_serve):
        places.append(Place("peer", options.peer_url or PEER_URL, options.peer_model, options.peer_serve, ["peer"]))
    machine = this_machine()
    print(f"{machine}; seed {options.seed}", flush=True)
    benchmark = Benchmark(plan)
    benchmark.run(places, options.runs)
    report = Report(
        machine=machine,
        seed=options.seed,
        runs=options.runs,
        scale=options.scale,
        concurrency=options.concurrency,
        ways=benchmark.ways,
        rows=benchmark.reports(),
        selects=benchmark.selects,
    )
    print(report.tables())
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Run programs that fork, join and select by our language on our server, then the same ones by plain "
        "calls of /v1/completions there and, if there is one, on a peer, by turns. Prints the median seconds of a set of "
        "programs and their ratios, prompt tokens computed by the fewest that would do, round trips, and what it costs to "
        "select one of four by what one option costs.",
        epilog="Rows: " + "; ".join(f"{row.name}: {row.what}" for row in ROWS.values()) + f"; {SELECT}: four by one",
    )
    add = parser.add_argument
    add("--url", type=_url, default="http://127.0.0.1:30000", help="our server (%(default)s)")
    add("--peer-url", type=_url, help=f"the peer ({PEER_URL} with --peer-serve)")
    add("--model", metavar="NAME", help="model to ask for; the first that the server lists if not given")
    add("--peer-model", metavar="NAME", help="the same of the peer")
    add("--serve", metavar="COMMAND", help="start our server by this, afresh for each run, and end it")
    add("--peer-serve", metavar="COMMAND", help="the same of the peer; then one runs while the other does not")
    add("--rows", type=_rows, default=[*ROWS, SELECT], help=f"rows to run ({','.join(ROWS)},{SELECT})")
    add("--runs", type=int, default=3, help="how often (%(default)s)")
    add("--concurrency", type=int, default=4, help="programs at a time (%(default)s)")
    add(
        "--scoring",
        choices=get_args(Scoring),
        default="echo",
        help="how plain calls compare options, where the server can (%(default)s)",
    )
    add("--selects", type=int, default=8, metavar="PAIRS", help=f"of row {SELECT} for each case (%(default)s)")
    add("--scale", type=float, default=1.0, help="multiply prompts and numbers of programs (%(default)s)")
    add("--seed", type=int, default=secrets.randbelow(10**6), help="of the texts; if not given, each call has its own")
    add("--json", type=Path, metavar="FILE", help="write all figures of all runs there")
    return parser


def _url(text: str) -> str:
    return text.rstrip("/")


def _rows(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in (*ROWS, SELECT)]:
        raise argparse.ArgumentTypeError(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}, {SELECT}")
    return names


if __name__ == "__main__":
    main()
