"""What the example programs have in common: options, a backend, their data, and the line that tells what was reused.

An example's ``main`` runs its program on the default backend, prints the answers and returns them. Its parameters, each with
a default, are the example's options.
"""

from __future__ import annotations

import csv
import inspect
import json
import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import click

import sgframe_dsl as sgf
from sgframe import Engine
from sgframe.errors import ConfigError
from sgframe_dsl.defaults import chosen_backend
from sgframe_dsl.runs import listening
from sgframe_dsl.trace import Trace

MODEL = "smollm2-135m"
DATA = Path(__file__).parent / "data"


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of a .csv or .jsonl file of ``data/``."""
    with (DATA / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines)) if file.endswith(".csv") else [json.loads(line) for line in lines]


def print_marked(questions: Sequence[str], answers: Sequence[Any], expected: Sequence[Any]) -> None:
    """Print each answer after its question, what was expected where that is another, and how many were right."""
    for question, answer, wanted in zip(questions, answers, expected, strict=True):
        verdict = "right" if answer == wanted else f"wrong, expected {str(wanted).strip()}"
        print(f"{shorten(question, 80, placeholder=' …')} {str(answer).strip()} ({verdict})")
    print(f"right: {sum(map(operator.eq, answers, expected))} of {len(answers)}")


@dataclass(frozen=True)
class Reuse:
    """What all runs of an example took together: prompt tokens computed, and those without sharing; tokens generated."""

    computed: int
    unshared: int
    output: int
    calls: int
    seconds: float

    def __str__(self) -> str:
        saved = 1 - self.computed / self.unshared if self.unshared else 0
        return (
            f"tokens computed {self.computed:,}, without sharing {self.unshared:,} (saved {saved:.0%}), "
            f"output {self.output:,}, calls {self.calls:,}, {self.seconds:.1f} seconds"
        )


def measured(main: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], Reuse]:
    """The answers of ``main``, and what the runs made in it took."""
    traces: list[Trace] = []
    began = time.monotonic()
    with listening(traces.append):
        answers = main()
    seconds = time.monotonic() - began
    return answers, Reuse(
        sum(trace.computed_tokens or 0 for trace in traces),
        sum(trace.prompt_tokens for trace in traces),
        sum(trace.output_tokens for trace in traces),
        sum(trace.calls for trace in traces),
        seconds,
    )


def run_example(main: Callable[..., Sequence[Any]]) -> None:
    """Be the command of the example whose ``main`` this is."""

    def command(url: str | None, model: str | None, as_json: bool, **options: Any) -> None:
        with _backend(url, model):
            _, reuse = measured(lambda: main(**options))
        click.echo(json.dumps(asdict(reuse)) if as_json else reuse)

    command.__doc__ = sys.modules[main.__module__].__doc__
    for name, parameter in inspect.signature(main).parameters.items():
        command = click.option(f"--{name.replace('_', '-')}", default=parameter.default, show_default=True)(command)
    command = click.option("--json", "as_json", is_flag=True, help="Tell what was reused as JSON.")(command)
    command = click.option("--model", help=f"The model of an engine in this process.  [default: {MODEL}]")(command)
    command = click.option("--url", help="A running sgframe server, instead of an engine.")(command)
    click.command()(command)()


@contextmanager
def _backend(url: str | None, model: str | None) -> Iterator[None]:
    """What the options name; without them the backend that is the default already, as under ``sgframe explain``."""
    if url and model:
        raise click.UsageError(
            "--model is for an engine in this process, and the server at --url has its own: drop one"
        )
    if not url and not model and _has_default():
        yield
        return
    with closing(sgf.Server(url) if url else Engine(model=model or MODEL)) as backend:
        sgf.set_default_backend(backend)
        yield


def _has_default() -> bool:
    try:
        chosen_backend(None)
    except ConfigError:
        return False
    return True
