"""Measures an OpenAI-compatible server, alone or beside peers: ``python benchmarks/serving.py --help``."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from drive.limits import Limits, machine_limits
from drive.machine import this_machine
from drive.outcome import Workload
from drive.peers import NotInstalled, Setting, our_launch, peer_launch, peer_names
from drive.plot import draw, refusal
from drive.programs_set import S
from drive.prompts import TokenIds
from drive.quiet import wait_for_quiet
from drive.report import Report, RowReport, ServerReport, best_ratios
from drive.rows import ROWS as REQUEST_ROWS
from drive.rows import Row
from drive.sides import Benchmark, Side

from sgframe.errors import ModelError
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource

ROWS: dict[str, Workload] = {**REQUEST_ROWS, S.name: S}
URL = "http://127.0.0.1:30000"
PEER_URL = "http://127.0.0.1:8000"
CONTEXT_STEP = 1024
STDOUT = Path("-")


def main() -> None:
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # so that servers are ended
    parser = _parser()
    options = parser.parse_args()
    rows = _chosen_rows(options)
    if options.token_ids and (texts := [row.name for row in rows if row.texts_only]):
        parser.error(f"--token-ids does not go with rows {','.join(texts)}, which are texts: name other --rows")
    if options.plot and (reason := refusal(options.plot)):
        parser.error(reason)
    options.threads = options.threads or len(options.cpus)
    os.sched_setaffinity(0, options.cpus)  # what is started inherits both
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    report = _measured(rows, options)
    if options.json:
        encoded = msgspec.json.format(msgspec.json.encode(report))
        sys.stdout.buffer.write(encoded) if options.json == STDOUT else options.json.write_bytes(encoded)
    if options.json != STDOUT:
        print(report.table())
    if options.plot:
        draw(report.rows, options.plot)
    sys.exit(1 if report.servers["ours"].failures else 0)


def _measured(rows: Sequence[Workload], options: argparse.Namespace) -> Report:
    setting: Setting | None = None
    limits: list[Limits] = []
    machine = this_machine()
    out = sys.stderr if options.json == STDOUT else sys.stdout
    scale = "" if options.scale == 1 else f", sizes times {options.scale:g}"
    print(f"{machine}; seed {options.seed}{scale}", file=out, flush=True)
    if options.peer:
        setting, rows = _setting(rows, options)
        print(f"{options.threads} threads on processors {options.cpus}", file=out, flush=True)
    peers, not_installed = _peers(options, setting)
    sides = [_ours(options, setting), *peers]
    patience = options.quiet_seconds if setting else 0.0
    chat = options.endpoint == "chat"

    def measure_limits() -> None:
        if setting is not None:
            wait_for_quiet(patience)
            limits.append(machine_limits())
            print(limits[-1], file=out, flush=True)

    Benchmark(rows, options.seed, options.token_ids, chat=chat, patience=patience).run(
        sides, options.runs, before=measure_limits
    )
    reports = [report for row in rows if (report := RowReport.of(row, sides)).engines]
    return Report(
        ratios=best_ratios(reports),
        rows=reports,
        servers={side.name: ServerReport.of(side, rows) for side in sides},
        machine=machine,
        cpus=options.cpus,
        threads=options.threads,
        limits=limits,
        weights_bytes=setting.weights_bytes if setting else None,
        seed=options.seed,
        runs=options.runs,
        scale=options.scale,
        not_installed=not_installed,
    )


# ------------------------------------------------------------------------------------------ what is measured


def _chosen_rows(options: argparse.Namespace) -> list[Workload]:
    rows = [row.scaled(options.scale) for row in options.rows]
    chat = options.endpoint == "chat"
    return [replace(row, chat=row.chat or chat) if isinstance(row, Row) else row for row in rows]


def _setting(rows: Sequence[Workload], options: argparse.Namespace) -> tuple[Setting, list[Workload]]:
    """What every server is given, and ``rows`` as far as the model's context allows."""
    try:
        checkpoint = HfSource(HfSettings()).resolve(options.checkpoint, lambda what, done, total: None)
    except ModelError as error:
        raise SystemExit(f"--checkpoint: {error}") from error
    fitting = [row.within(checkpoint.context_length) if isinstance(row, Row) else row for row in rows]
    longest = max(row.longest for row in fitting)
    setting = Setting(
        checkpoint=Path(checkpoint.folder),
        name=Path(options.checkpoint).name,
        cpus=options.cpus,
        threads=options.threads,
        context=min(-(-longest // CONTEXT_STEP) * CONTEXT_STEP, checkpoint.context_length),
        concurrency=max(row.concurrency for row in fitting),
    )
    return setting, fitting


def _ours(options: argparse.Namespace, setting: Setting | None) -> Side:
    """As ``peers/sgframe.toml`` has it, beside named peers; else by the command given, or where it runs already."""
    if setting is None or options.url or options.serve:
        return Side.told("ours", options.url or URL, options.model, options.serve, ours=True)
    return Side.of("ours", our_launch(setting), ours=True)


def _peers(options: argparse.Namespace, setting: Setting | None) -> tuple[list[Side], list[str]]:
    """Those that can be had; and of the others, why not."""
    sides, missing = [], []
    if setting is not None:
        for name in options.peer:
            try:
                sides.append(Side.of(name, peer_launch(name, options.peers_dir, setting)))
            except NotInstalled as error:
                missing.append(str(error))
                print(error, file=sys.stderr, flush=True)
    if options.peer_url or options.peer_serve:
        sides.append(Side.told("peer", options.peer_url or PEER_URL, options.peer_model, options.peer_serve))
    return sides, missing


# ------------------------------------------------------------------------------------------ options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Drive an OpenAI-compatible server by streamed completions, greedy, in a closed loop; with peers, all "
        "by turns. Prints the median of the runs, their range by the median, times to first token, and ours by each "
        "peer's.",
        epilog="Rows: " + "; ".join(f"{row.name}: {row.what}, {row.unit}" for row in ROWS.values()),
    )
    _add_servers(parser)
    add = parser.add_argument
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
    add(
        "--json",
        type=Path,
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write all figures there; without FILE print them, and all else to standard error",
    )
    add("--plot", type=Path, metavar="FILE", help="draw the ratios there, as .svg or .png")
    return parser


def _add_servers(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    peers = f"{','.join(peer_names())}, or what has a NAME.toml in the peers' folder"
    add(
        "--peer", type=lambda text: text.split(","), default=[], metavar="NAME,…", help=f"start ours and these: {peers}"
    )
    add(
        "--peers-dir",
        type=lambda text: Path(text).absolute(),
        default=Path(os.environ.get("SERVING_PEERS", "peers")).absolute(),
        metavar="FOLDER",
        help="has a virtual environment for each peer, by its name ($SERVING_PEERS, or else ./peers)",
    )
    add("--checkpoint", default="smollm2-135m", help="model of ours and the named peers (%(default)s)")
    add("--cpus", type=_processors, default=sorted(os.sched_getaffinity(0)), metavar="0,1", help="run all on these")
    add("--threads", type=int, help="of each server; as many as processors if not given")
    add(
        "--quiet-seconds",
        type=float,
        default=120.0,
        help="with named peers: longest wait for a quiet machine before each start (%(default)g)",
    )
    add("--url", type=_url, help=f"our server ({URL})")
    add("--peer-url", type=_url, help=f"a peer ({PEER_URL} with --peer-serve)")
    add("--model", metavar="NAME", help="model to ask for; the first that the server lists if not given")
    add("--peer-model", metavar="NAME", help="the same of the peer")
    add(
        "--serve",
        metavar="COMMAND",
        help="start our server by this, afresh for each run, and end it; {port} in it is a free one",
    )
    add("--peer-serve", metavar="COMMAND", help="the same of the peer; then one runs while the other does not")


def _url(text: str) -> str:
    return text.rstrip("/")


def _rows(text: str) -> list[Workload]:
    if unknown := [name for name in text.split(",") if name not in ROWS]:
        raise argparse.ArgumentTypeError(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in text.split(",")]


def _processors(text: str) -> list[int]:
    cpus = sorted(map(int, text.split(",")))
    if absent := [cpu for cpu in cpus if cpu not in os.sched_getaffinity(0)]:
        raise argparse.ArgumentTypeError(f"no processor {absent[0]}; there are {sorted(os.sched_getaffinity(0))}")
    return cpus


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
