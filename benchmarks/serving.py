"""Measures an OpenAI-compatible server, alone or beside a peer: ``python benchmarks/serving.py --help``."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from random import Random

import httpx
import msgspec
from drive.client import Answer, RequestFailed
from drive.machine import this_machine
from drive.meeting import measure_texts, meet
from drive.prompts import PromptMaker, Texts, TokenIds
from drive.report import Figures, Report, RowReport
from drive.rows import ROWS, Row, measure, warm_up
from drive.server import ServerFailed, started

PEER_URL = "http://127.0.0.1:8000"


@dataclass(slots=True)
class Side:
    """One of the two servers; without a ``command`` it runs already. ``answers`` by row, a list for each run."""

    name: str
    url: str
    model: str | None
    command: str | None
    answers: dict[str, list[list[Answer]]] = field(default_factory=dict)


class Benchmark:
    """Runs ``rows`` against each side in turn. Without a ``maker``, texts are fitted to the first server's tokenizer, and
    both sides get the same. ``chat``: servers are met by a chat, too, not only asked in the rows that are chats."""

    def __init__(self, rows: Sequence[Row], seed: int, maker: PromptMaker | None, *, chat: bool) -> None:
        self._rows = rows
        self._seed = seed
        self._maker = maker
        self._chat = chat

    def run(self, sides: Sequence[Side], runs: int) -> None:
        """Ours, peer, ours, peer …, so that neither has the better hours. Ends the program when a side fails."""
        for run in range(runs):
            for side in sides:
                try:
                    with started(side.command, side.url) if side.command else nullcontext():
                        asyncio.run(self._run_once(side, run))
                except (RequestFailed, ServerFailed, OSError, httpx.HTTPError) as error:
                    raise SystemExit(f"{side.name} ({side.url}): {error}") from error

    async def _run_once(self, side: Side, run: int) -> None:
        maker = self._maker or Texts(1.0)
        greeting = maker.join(maker.draw(Random(0), 8))
        endpoint = await meet(side.url, side.model, greeting, chat=self._chat)
        self._maker = maker = self._maker or await measure_texts(endpoint, chat=self._chat)
        seed = f"{self._seed}/{run}"
        await warm_up(endpoint, self._rows, maker, seed)
        for row in self._rows:
            answers = await measure(endpoint, row, maker, seed)
            side.answers.setdefault(row.name, []).append(answers)
            print(f"run {run + 1}, {side.name}, row {row.name}: {row.figure(answers):.4g} {row.unit}", file=sys.stderr)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # so that servers are ended
    parser = _parser()
    options = parser.parse_args()
    chat = options.endpoint == "chat"
    rows = [replace(row, chat=row.chat or chat).scaled(options.scale) for row in options.rows]
    if options.token_ids and (chats := [row.name for row in rows if row.chat]):
        parser.error(
            f"--token-ids does not go with chats (rows {','.join(chats)}), whose messages are texts: name other --rows"
        )
    sides = [Side("ours", options.url, options.model, options.serve)]
    if options.peer_url or options.peer_serve:
        sides.append(Side("peer", options.peer_url or PEER_URL, options.peer_model, options.peer_serve))
    machine = this_machine()
    scale = "" if options.scale == 1 else f", sizes times {options.scale:g}"
    print(f"{machine}; seed {options.seed}{scale}", file=sys.stderr if options.json else sys.stdout, flush=True)
    Benchmark(rows, options.seed, options.token_ids, chat=chat).run(sides, options.runs)
    ours, *peers = ({row.name: Figures.of(row, side.answers[row.name]) for row in rows} for side in sides)
    reports = [RowReport.of(row, ours[row.name], peers[0][row.name] if peers else None) for row in rows]
    report = Report(machine=machine, seed=options.seed, runs=options.runs, scale=options.scale, rows=reports)
    print(msgspec.json.encode(report).decode() if options.json else report.table())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Drive an OpenAI-compatible server by streamed completions, greedy, in a closed loop; with a peer, the "
        "two by turns. Prints the median of the runs, their range by the median, the median time to first token, and ours "
        "by peer's.",
        epilog="Rows: " + "; ".join(f"{row.name}: {row.what}, {row.unit}" for row in ROWS.values()),
    )
    add = parser.add_argument
    add("--url", type=_url, default="http://127.0.0.1:30000", help="our server (%(default)s)")
    add("--peer-url", type=_url, help=f"the peer ({PEER_URL} with --peer-serve)")
    add("--model", metavar="NAME", help="model to ask for; the first that the server lists if not given")
    add("--peer-model", metavar="NAME", help="the same of the peer")
    add("--serve", metavar="COMMAND", help="start our server by this, afresh for each run, and end it")
    add("--peer-serve", metavar="COMMAND", help="the same of the peer; then one runs while the other does not")
    add("--rows", type=_rows, default=list(ROWS.values()), help=f"rows to run ({','.join(ROWS)})")
    add("--runs", type=int, default=3, help="how often (%(default)s)")
    add("--endpoint", choices=("completions", "chat"), default="completions", help="what is asked (%(default)s)")
    add(
        "--token-ids",
        type=_token_ids,
        metavar="LOW:HIGH",
        help="prompts are ids of this range (of plain text), not words",
    )
    add("--scale", type=float, default=1.0, help="multiply lengths, requests and concurrency (%(default)s)")
    add(
        "--seed", type=int, default=secrets.randbelow(10**6), help="of the prompts; if not given, each call has its own"
    )
    add("--json", action="store_true", help="print JSON, and all else to standard error")
    return parser


def _url(text: str) -> str:
    return text.rstrip("/")


def _rows(text: str) -> list[Row]:
    if unknown := [name for name in text.split(",") if name not in ROWS]:
        raise argparse.ArgumentTypeError(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in text.split(",")]


def _token_ids(text: str) -> TokenIds:
    low, _, high = text.partition(":")
    try:
        ids = TokenIds(int(low), int(high))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range such as 1000:20000") from None
    if not 0 <= ids.low < ids.high:
        raise argparse.ArgumentTypeError(f"{text!r} is empty")
    return ids


if __name__ == "__main__":
    main()
