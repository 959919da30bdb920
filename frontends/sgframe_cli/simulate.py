"""``sgframe simulate``: how policies, caches and eviction strategies fare on a recorded trace, without a device."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sgframe.assembly.assemble import BLOCK
from sgframe.assembly.settings import Settings
from sgframe.scheduler.estimator import ESTIMATORS
from sgframe_cli.columns import columns
from sgframe_cli.options import Assignment, tables
from sgframe_simulator.costs import read_costs
from sgframe_simulator.parts import Shelf
from sgframe_simulator.plot import draw, require_plot
from sgframe_simulator.simulation import Setup
from sgframe_simulator.sweep import Run, sweep
from sgframe_simulator.trace import Trace
from sgframe_simulator.trace_files import load_trace

F = TypeVar("F", bound=Callable[..., Any])
_POSITIVE = click.IntRange(min=1)
_SERVING = ("users", "rate", "page_size", "max_running", "max_step_tokens", "admission", "every_step")
"""The options that say how requests are served. At block level they are not: prompts are looked up and stored."""
USERS = 64
"""Requests at a time where nothing else is said."""
_FILE = click.Path(path_type=Path)


class _List(click.ParamType[list[Any]]):
    """Values of a kind, separated by commas; each once."""

    def __init__(self, kind: click.ParamType[Any], name: str) -> None:
        self.name = name
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        words = value.split(",") if isinstance(value, str) else value
        return list(dict.fromkeys(self._kind.convert(word, param, ctx) for word in words))


def _default(key: str) -> Any:
    return Settings.model_fields[key].default


_WHAT = [
    click.argument("trace", type=_FILE),
    click.option("--policy", type=_List(click.STRING, "NAME,…"), default=_default("policy"), help="Policies."),
    click.option("--cache", type=_List(click.STRING, "NAME,…"), default=_default("cache"), help="Caches."),
    click.option(
        "--eviction",
        type=_List(click.STRING, "NAME,…"),
        default=[],
        help="Eviction strategies, where a cache has a choice.",
    ),
    click.option("--slots", type=_List(_POSITIVE, "N,…"), default="262144,1048576", help="KV slots, one a token."),
    click.option("--plugin", multiple=True, metavar="no:NAME", help="Leave the plugin NAME out. Repeatable."),
    click.option("--set", "set_", multiple=True, type=Assignment(), help="A setting of a part. Repeatable."),
]
_HOW = [
    click.option("--users", type=_POSITIVE, metavar="N", default=USERS, help="Closed loop: requests at a time."),
    click.option(
        "--rate",
        type=click.FloatRange(1e-6, 1e6),
        show_default=False,
        help="Open loop instead: requests arrive when the trace says, X times as fast.",
        metavar="X",
    ),
    click.option(
        "--block-level",
        is_flag=True,
        help="As studies of caches count: prompts alone, in whole blocks, one at a time.",
    ),
    click.option(
        "--block",
        type=_POSITIVE,
        metavar="N",
        help="Tokens of a block of the trace; told from its lengths if not given.",
    ),
    click.option("--requests", type=_POSITIVE, metavar="N", help="Only the first N of the trace."),
    click.option("--profile", type=_FILE, metavar="FILE", help="Cost model: .toml, .yaml or .json."),
    click.option("--page-size", type=_POSITIVE, metavar="N", default=1, help="Slots of a page."),
    click.option("--max-running", type=_POSITIVE, metavar="N", default=256, help="Most requests that run at once."),
    click.option(
        "--max-step-tokens", type=_POSITIVE, metavar="N", default=8192, help="Most tokens computed in one step."
    ),
    click.option(
        "--admission", type=click.Choice(list(ESTIMATORS)), default="ratio", help="Estimate of memory to come."
    ),
    click.option("--every-step", is_flag=True, help="Simulate each decode step, also where nothing happens between."),
]
_OUTPUT = [
    click.option("--jobs", type=_POSITIVE, metavar="N", show_default="one a core", help="Processes."),
    click.option("--plot", type=_FILE, metavar="FILE", help="Draw hit rate and TTFT over the size: .png or .svg."),
    click.option("--json", "as_json", is_flag=True, help="Print a JSON list of runs."),
]


def _with(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command(context_settings={"show_default": True})
@_with([*_WHAT, *_HOW, *_OUTPUT])
@click.pass_context
def simulate(
    ctx: click.Context, /, trace: Path, jobs: int | None, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Run the scheduler and its cache through a recorded TRACE, with a virtual clock.

    Each combination of policy, cache, eviction strategy and slots is a run.
    """
    _require_sense(ctx, options)
    if plot:
        require_plot(plot)
    setups = _setups(options)
    loaded = load_trace(trace, options["block"])
    if options["requests"]:
        loaded = loaded.first(options["requests"])
    rows = [run.row() for run in _sweep(loaded, setups, jobs or min(len(os.sched_getaffinity(0)), len(setups)))]
    if plot:
        draw(rows, plot)
    click.echo(json.dumps(rows, indent=2) if as_json else columns([_HEADINGS, *map(_line, rows)]))


def _require_sense(ctx: click.Context, options: dict[str, Any]) -> None:
    """Raise UsageError for options of which one would be ignored."""
    given = [name for name in _SERVING if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if options["block_level"] and given:
        raise click.UsageError(
            f"--block-level serves nobody, so --{given[0].replace('_', '-')} means nothing: drop one"
        )
    if options["rate"] is not None and isnan(options["rate"]):
        raise click.UsageError("--rate nan: must be a number")
    if {"users", "rate"} <= {*given}:
        raise click.UsageError("--users is a closed loop and --rate an open one: drop one")
    if options["max_step_tokens"] < options["max_running"]:
        raise click.UsageError(
            f"--max-step-tokens {options['max_step_tokens']} is less than --max-running {options['max_running']}: each "
            "running request needs a token a step"
        )
    if named := [word for word in options["plugin"] if not word.startswith(BLOCK)]:
        raise click.UsageError(f"--plugin {named[0]}: only {BLOCK}NAME is meant here; choose by --policy and --cache")


def _setups(options: dict[str, Any]) -> list[Setup]:
    shelf = Shelf(tables(options["set_"]), options["plugin"])
    pairs = shelf.pairs(options["policy"], options["cache"], options["eviction"])
    users = 0 if options["rate"] else options["users"]
    return [
        Setup(
            policy=policy,
            cache=cache,
            slots=slots,
            page_size=options["page_size"],
            max_running=options["max_running"],
            max_step_tokens=options["max_step_tokens"],
            admission=options["admission"],
            costs=read_costs(options["profile"]),
            users=1 if options["block_level"] else users,
            rate=options["rate"] or 1.0,
            block_level=options["block_level"],
            every_step=options["every_step"],
        )
        for (policy, cache), slots in product(pairs, options["slots"])
    ]


def _sweep(trace: Trace, setups: Sequence[Setup], jobs: int) -> list[Run]:
    """With a bar on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task(f"{len(setups)} × {len(trace)} requests", total=len(setups) * len(trace))
        return sweep(trace, setups, jobs, lambda ended: bar.update(task, completed=ended))


_HEADINGS = (
    "POLICY",
    "CACHE",
    "EVICTION",
    "SLOTS",
    "HIT %",
    "BELADY %",
    "INFINITE %",
    "TTFT P50",
    "TTFT P99",
    "MAX WAIT",
    "RETRACTED",
    "REFUSED",
)


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    rates = (f"{row[key]:.2f}" for key in ("hit_rate", "belady_hit_rate", "infinite_hit_rate"))
    times = (f"{row[key]:.2f} s" for key in ("ttft_p50", "ttft_p99", "max_wait"))
    counts = (str(row[key]) for key in ("retractions", "refused"))
    return row["policy"], row["cache"], row["eviction"] or "-", str(row["slots"]), *rates, *times, *counts
