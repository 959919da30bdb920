"""Measures grammars on JSON Schemas, beside other libraries in the same run: ``python benchmarks/grammar.py --help``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
from drive.grammar_runs import Run, Sample, read_samples, worker
from drive.grammars import MODULES, OURS, PEERS, text_of
from drive.machine import Machine, this_machine

from sgframe.interfaces.grammar import Vocabulary
from sgframe.testing import grammar_walker

SLOW = "outlines-core"
"""Makes masks for all states at once: seconds and gigabytes a schema, so it gets a part of the sample."""
FUNCTION_CALLS = ("BFCL", "Glaiveai2K", "MCPspec", "Synthesized")

Runs = list[Run]
Figures = dict[str, float]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``figures`` by grammar. ``ratios``: the same by ours, for what takes time or memory; else empty."""

    row: str
    unit: str
    figures: Figures
    ratios: Figures


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """``absent`` says of grammars that were not measured why. ``wrong`` are schemas that a grammar took and misread."""

    machine: Machine
    model: str
    schemas: dict[str, int]
    rows: list[Row]
    absent: dict[str, str]
    wrong: dict[str, list[str]]


# ------------------------------------------------------------------------------------------ figures


def _compiled(runs: Runs) -> Runs:
    return [run for run in runs if run.outcome == "compiled"]


def _masks(runs: Runs, kind: str) -> list[float]:
    return list(chain.from_iterable(getattr(run, kind) for run in _compiled(runs)))


def _percentile(percent: float) -> Callable[[Sequence[float]], float]:
    return lambda values: float(np.percentile(values, percent)) if len(values) else math.nan


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else math.nan


def counts(runs: Runs) -> dict[tuple[str, str], float]:
    """What a grammar takes and how right it is; and how much it can write unasked."""
    taken = _compiled(runs)
    recursive = [run for run in runs if run.recursive]
    tokens = sum(run.tokens for run in taken)
    calls = [run for run in taken if run.group in FUNCTION_CALLS]
    return {
        ("compiled", "%"): _share(len(taken), len(runs)),
        ("compiled and right on every instance", "%"): _share(sum(run.is_right for run in runs), len(runs)),
        ("the same, recursive", "%"): _share(sum(run.is_right for run in recursive), len(recursive)),
        ("valid rejected", "instances"): sum(run.rejected for run in taken),
        ("invalid accepted", "instances"): sum(run.accepted for run in taken),
        ("hung or crashed", "schemas"): sum(run.outcome in ("timeout", "crash") for run in runs),
        ("forced", "% of tokens"): _share(sum(run.forced for run in taken), tokens),
        ("forced, function calls", "% of tokens"): _share(sum(r.forced for r in calls), sum(r.tokens for r in calls)),
        ("forced but not canonical", "% of tokens"): _share(sum(run.strange for run in taken), tokens),
    }


def costs(runs: Runs, common: frozenset[str]) -> dict[tuple[str, str], float]:
    """``common``: the schemas that all grammars took."""
    compiling = [run.compile / 1000 for run in _compiled(runs)]
    cold, warm = _masks(runs, "cold"), _masks(runs, "warm")
    first = [(run.compile + run.load + sum(run.cold)) / 1000 for run in runs if run.id in common]
    return {
        ("compile, p50", "ms"): _percentile(50)(compiling),
        ("compile, p95", "ms"): _percentile(95)(compiling),
        ("compile, max", "ms"): _percentile(100)(compiling),
        ("load, p99", "ms"): _percentile(99)([run.load / 1000 for run in _compiled(runs)]),
        ("mask warm, p50", "µs"): _percentile(50)(warm),
        ("mask warm, p99", "µs"): _percentile(99)(warm),
        ("mask cold, mean", "µs"): _mean(cold),
        ("mask cold, p99", "µs"): _percentile(99)(cold),
        ("mask cold, max", "µs"): _percentile(100)(cold),
        ("first request, mean, schemas taken by all", "ms"): _mean(first),
        ("memory a schema, mean", "MB"): _mean([run.resident / 1e6 for run in _compiled(runs)]),
    }


def groups(runs_by_grammar: dict[str, Runs]) -> list[Row]:
    """The forced share by group of schemas, of grammars that force anything."""
    rows = []
    for group in sorted({run.group for runs in runs_by_grammar.values() for run in runs}):
        figures = {}
        for name, runs in runs_by_grammar.items():
            chosen = [run for run in _compiled(runs) if run.group == group]
            if any(run.forced for run in _compiled(runs)):
                figures[name] = _share(sum(run.forced for run in chosen), sum(run.tokens for run in chosen))
        rows.append(Row(row=f"forced, {group}", unit="%", figures=figures, ratios={}))
    return rows


def rows_of(runs_by_grammar: dict[str, Runs]) -> list[Row]:
    quick = {name: runs for name, runs in runs_by_grammar.items() if name != SLOW}
    taken = [{run.id for run in _compiled(runs)} for runs in quick.values()]
    common = frozenset(set.intersection(*taken)) if taken else frozenset()
    counted = {name: counts(runs) for name, runs in runs_by_grammar.items()}
    cost = {name: costs(runs, common) for name, runs in runs_by_grammar.items()}
    return [*_rows(counted, ratios=False), *_rows(cost, ratios=True), *groups(runs_by_grammar)]


def _rows(table: dict[str, dict[tuple[str, str], float]], *, ratios: bool) -> list[Row]:
    first = next(iter(table.values()))
    rows = []
    for row, unit in first:
        figures = {name: column[row, unit] for name, column in table.items()}
        own = figures.get(OURS) if ratios else None
        by_own = {name: figure / own for name, figure in figures.items()} if own else {}
        rows.append(Row(row=row, unit=unit, figures=figures, ratios=by_own))
    return rows


# ------------------------------------------------------------------------------------------ the program


def main() -> None:
    options = _parser().parse_args()
    model = grammar_walker("none", options.model)
    samples = read_samples(
        options.schemas, lambda text: model.tokenizer.encode(text, add_special_tokens=False), text_of
    )
    samples = samples[:: max(1, len(samples) // options.limit)][: options.limit] if options.limit else samples
    absent = {name: f"no module {MODULES[name]}" for name in options.grammars if find_spec(MODULES[name]) is None}
    runs = {}
    for name in options.grammars:
        if name not in absent:
            part = samples[:: max(1, len(samples) // options.slow)][: options.slow] if name == SLOW else samples
            runs[name] = run_all(name, model.vocabulary, part, options.seconds, options.memory * 2**20)
    report = Report(
        machine=this_machine(),
        model=options.model,
        schemas={name: len(of) for name, of in runs.items()},
        rows=rows_of(runs),
        absent=absent,
        wrong={name: [run.id for run in _compiled(of) if not run.is_right] for name, of in runs.items()},
    )
    print(msgspec.json.encode(report).decode() if options.json else _table(report))


def run_all(name: str, vocabulary: Vocabulary, samples: list[Sample], seconds: float, memory: int) -> Runs:
    with worker(name, vocabulary, seconds, memory) as process:
        return [process.run(sample) for sample in samples]


def _table(report: Report) -> str:
    names = list(report.schemas)
    lines = [
        f"{report.machine}",
        f"vocabulary of {report.model}; CPU time of one thread; in brackets by that of {OURS}",
        f"{'':<52}" + "".join(f"{name:>20}" for name in names),
        f"{'schemas':<52}" + "".join(f"{report.schemas[name]:>20}" for name in names),
        *(f"{row.row + ', ' + row.unit:<52}" + "".join(_cell(row, name) for name in names) for row in report.rows),
        *(f"misread by {name}: {', '.join(ids)}" for name, ids in report.wrong.items() if ids),
        *(f"without {name}: {why}; pip install {name}" for name, why in report.absent.items()),
    ]
    return "\n".join(lines)


def _cell(row: Row, name: str) -> str:
    figure = row.figures.get(name, math.nan)
    if math.isnan(figure):
        return f"{'–':>20}"
    ratio = f" ({row.ratios[name]:.2f})" if row.ratios else ""
    return f"{f'{figure:,.2f}{ratio}':>20}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compile JSON Schemas and walk their instances token by token, with each grammar in its own process."
    )
    add = parser.add_argument
    add("--schemas", type=Path, required=True, help="lines of {id, group, recursive, schema, valid, invalid}")
    add("--limit", type=int, default=0, help="how many of them, evenly spread; 0: all")
    add("--slow", type=int, default=40, help=f"how many of these for {SLOW} (%(default)s)")
    add("--grammars", type=_names, default=list(PEERS), help=f"which ({','.join(PEERS)})")
    add("--model", default="smollm2-135m", help="whose vocabulary (%(default)s)")
    add("--seconds", type=float, default=60, help="that a schema may take (%(default)s)")
    add("--memory", type=int, default=6144, help="MiB that a process may grow by (%(default)s)")
    add("--json", action="store_true", help="print JSON")
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no adapter for {unknown[0]!r}; there is one for {', '.join(PEERS)}")
    return names


if __name__ == "__main__":
    main()
