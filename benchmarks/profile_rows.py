"""Shows where the time of a step goes: ``python benchmarks/profile_rows.py --help``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from drive.client import RequestFailed
from drive.limits import machine_limits
from drive.machine import this_machine
from drive.plot import refusal
from drive.quiet import wait_for_quiet
from drive.rows import ROWS, Row
from drive.server import ServerFailed, free_port, started
from profiles import CannotProfile
from profiles.kernel_report import KernelProfile, StepProfile
from profiles.picture import Bar, draw
from profiles.report import Profile, RowProfile, bars, table
from profiles.stacks import parse, shares
from profiles.watch import check_py_spy, ready, watch, worker_of

from sgframe.errors import ModelError
from sgframe_hf import HfSettings
from sgframe_hf.source import HfSource

PORT = "{port}"
SERVE = f"{sys.executable} -m sgframe serve --model {{model}} --dtype bfloat16 --port {PORT}"
SEED = "profile"
OF_KERNELS, OF_ROWS = ("threads",), ("rows", "scale", "seconds", "hertz", "serve", "name", "beside")
"""Options that only the one or the other reads."""


def main() -> None:
    parser = _parser()
    options = parser.parse_args()
    unread = OF_ROWS if options.kernels else OF_KERNELS
    if given := [name for name in unread if getattr(options, name) != parser.get_default(name)]:
        parser.error(f"--{given[0]} does not go {'with' if options.kernels else 'without'} --kernels")
    if options.plot and (reason := refusal(options.plot)):
        parser.error(reason)
    signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(128 + signum))  # so that the server is ended
    waited = wait_for_quiet(options.quiet_seconds)
    if not waited.quiet:
        print(f"not quiet: {waited.busy:.0%} of the processors' time is taken", file=sys.stderr, flush=True)
    try:
        text, shown = _kernels(options) if options.kernels else _threads(options)
    except (CannotProfile, RequestFailed, ServerFailed, ModelError) as error:
        raise SystemExit(str(error)) from error
    print(text)
    if options.plot:
        draw(shown, "ms a step", options.plot)


def _threads(options: argparse.Namespace) -> tuple[str, Sequence[Bar]]:
    """What the threads of the worker do while rows are served."""
    check_py_spy()
    port = free_port()
    url, command = f"http://127.0.0.1:{port}", options.serve.replace("{model}", options.model).replace(PORT, str(port))
    rows = [row.scaled(options.scale) for row in options.rows]
    machine = this_machine()
    with started(command, url) as server:
        worker, target = worker_of(server), ready(url, rows, SEED)
        found = []
        for row in rows:
            watched = watch(worker, row, target, options.seconds, options.hertz)
            found.append(
                RowProfile(
                    row=row.name,
                    what=row.what,
                    concurrency=row.concurrency,
                    tokens_per_second=watched.tokens_per_second,
                    threads=shares(parse(watched.stacks)),
                )
            )
    profile = Profile(name=options.name, machine=machine, seconds=options.seconds, hertz=options.hertz, rows=found)
    _write(profile, options)
    profiles = [*(msgspec.json.decode(file.read_bytes(), type=Profile) for file in options.beside), profile]
    return f"{machine}\n\n{table(profiles, markdown=options.markdown)}", bars(profiles)


def _kernels(options: argparse.Namespace) -> tuple[str, Sequence[Bar]]:
    """What each kernel of a step takes."""
    from profiles.replay import SHAPES, Replay  # noqa: PLC0415  loads torch, which would slow down the start of a server

    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    limits = machine_limits()
    checkpoint = HfSource(HfSettings()).resolve(options.model, lambda what, done, total: None)
    replay = Replay(checkpoint, SHAPES, options.threads)
    steps = [StepProfile(shape.name, replay.measure(shape)) for shape in SHAPES]
    profile = KernelProfile(machine=this_machine(), threads=options.threads, limits=limits, steps=steps)
    _write(profile, options)
    head = f"{profile.machine}; threads: {profile.threads}; {limits}"
    return f"{head}\n\n{profile.table(markdown=options.markdown)}", profile.bars()


def _write(profile: Profile | KernelProfile, options: argparse.Namespace) -> None:
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(profile)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Start our server, drive it by rows of serving.py, and look by py-spy at what the threads of its worker "
        "do: each kind's share of their time, and its milliseconds of a step. With --kernels, time each kernel of recorded "
        "steps by itself instead, without a server, beside what the machine can do."
    )
    add = parser.add_argument
    add("--kernels", action="store_true", help="the kernels of a step, one by one")
    add("--model", default="smollm2-135m", help="what is served, in bfloat16 (%(default)s)")
    add("--threads", type=int, default=1, help="with --kernels: of the kernels and of the limits (%(default)s)")
    add("--rows", type=_rows, default=[ROWS["a"], ROWS["b"]], help="rows of serving.py (a,b)")
    add("--scale", type=float, default=1.0, help="multiply lengths, requests and concurrency (%(default)s)")
    add("--seconds", type=int, default=20, help="how long each row is looked at (%(default)s)")
    add("--hertz", type=int, default=50, help="looks in a second (%(default)s); each stops the worker for a moment")
    add(
        "--serve",
        default=SERVE,
        metavar="COMMAND",
        help="start this server of ours instead; {port} in it is a free one",
    )
    add("--name", default="now", help="what this profile is called beside others (%(default)s)")
    add("--beside", type=Path, action="append", default=[], metavar="FILE", help="show an earlier --json, too")
    add("--quiet-seconds", type=float, default=120.0, help="longest wait for a quiet machine (%(default)g)")
    add("--markdown", action="store_true", help="print tables for a page")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--plot", type=Path, metavar="FILE", help="draw stacked bars there, as .svg or .png")
    return parser


def _rows(text: str) -> list[Row]:
    if unknown := [name for name in text.split(",") if name not in ROWS]:
        raise argparse.ArgumentTypeError(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    return [ROWS[name] for name in text.split(",")]


if __name__ == "__main__":
    main()
