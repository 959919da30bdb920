"""``sgframe explain``: run a program of the language and draw its runs."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console

import sgframe_dsl as sgf
from sgframe.errors import ConfigError, SgframeError
from sgframe.front.engine import Engine
from sgframe_cli.options import CommandLine, settings_options
from sgframe_cli.progress import ProgressDisplay
from sgframe_cli.starting import prepare
from sgframe_dsl.errors import ProgramError
from sgframe_dsl.explain import html, render, svg
from sgframe_dsl.explain.words import counted, totals
from sgframe_dsl.runs import listening
from sgframe_dsl.trace import Trace

PIPED_WIDTH = 1000
"""Columns where there is no terminal: nothing is cut off."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("program", type=_FILE, metavar="PROGRAM.py")
@click.argument("arguments", nargs=-1, metavar="[-- ARGS]...")
@settings_options
@click.option("--url", help="A running server to use instead of an engine of its own; --api-key is the server's then.")
@click.option("--svg", "svg_file", type=_FILE, metavar="FILE", help="Draw the runs to FILE.")
@click.option("--html", "html_file", type=_FILE, metavar="FILE", help="Draw them to a page with tables of their steps.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Most runs to draw.")
def explain(
    command_line: CommandLine,
    program: Path,
    arguments: tuple[str, ...],
    url: str | None,
    svg_file: Path | None,
    html_file: Path | None,
    limit: int,
) -> None:
    """Run PROGRAM.py with ARGS, and draw each run made in it: what was computed, what was reused, and how long it took.

    Its runs use the engine or server named here, unless they name a backend of their own. A program that fails is drawn
    as far as it came.
    """
    _require_sense(command_line, url)
    _require_files(program, svg_file, html_file)
    traces: list[Trace] = []
    with listening(traces.append), _backend(command_line, url):
        code = _run(program, arguments)
    if traces:
        _show(traces, limit)
    elif not code:
        raise SgframeError(
            f"{program} made no run: let it call .run(...) of an @sgf.function; what only defines functions shows nothing"
        )
    for file, draw in ((svg_file, svg), (html_file, html)):
        if file and traces:
            _write(file, draw(*traces[:limit]))
    sys.exit(code)


def _require_sense(command_line: CommandLine, url: str | None) -> None:
    """Raise UsageError for options that would be ignored."""
    values = {**command_line.values, "config": command_line.config_file}
    values |= {"set": values["plugin"], "plugin": command_line.words}
    given = [key for key, value in values.items() if value not in (None, (), {})]
    if url is None and "api_key" in given:
        raise click.UsageError("--api-key is that of a running server: name it by --url, or drop the key")
    if url is not None and (unheard := [key for key in given if key != "api_key"]):
        name = unheard[0].replace("_", "-")
        raise click.UsageError(f"--{name} means nothing to a server that runs already: drop it, or --url")


def _require_files(program: Path, *drawn: Path | None) -> None:
    """Raise ConfigError before anything starts, if there is nothing to run or nowhere to draw."""
    if not program.is_file():
        raise ConfigError(f"{program}: there is no such file; name the Python file of a program")
    for file in filter(None, drawn):
        if not file.parent.is_dir():
            raise ConfigError(f"{file}: there is no folder {file.parent}; make it, or choose another")


@contextmanager
def _backend(command_line: CommandLine, url: str | None) -> Iterator[None]:
    """What the programs run on by default."""
    with closing(_server(command_line, url) if url else _engine(command_line)) as backend:
        sgf.set_default_backend(backend)
        try:
            yield
        finally:
            sgf.set_default_backend(None)


def _server(command_line: CommandLine, url: str) -> sgf.Server:
    return sgf.Server(url, api_key=command_line.values["api_key"] or os.environ.get("SGFRAME_API_KEY"))


def _engine(command_line: CommandLine) -> Engine:
    settings, choices = prepare(command_line, quiet=True)
    with ProgressDisplay() as progress:
        return Engine.start(settings, choices, progress)


def _run(program: Path, arguments: Sequence[str]) -> int:
    """Run it as ``python PROGRAM.py`` would; the exit code. What it raises is printed."""
    try:
        with _as_main(program, arguments):
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        click.echo(end.code, err=True)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except ProgramError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    except Exception as error:
        error.__traceback__ = _within(program, error)
        traceback.print_exception(error)
        return 1
    return 0


@contextmanager
def _as_main(program: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _within(program: Path, error: Exception) -> TracebackType | None:
    """The error's traceback from the program's first line on; None when it did not come to that."""
    place = error.__traceback__
    while place and place.tb_frame.f_code.co_filename != str(program):
        place = place.tb_next
    return place


def _show(traces: list[Trace], limit: int) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    for trace in traces[:limit]:
        console.print(render(trace))
    if len(traces) > 1:
        drawn = f", the first {limit} drawn" if len(traces) > limit else ""
        click.echo(f"{counted(len(traces), 'run')}{drawn}: {totals(*traces)}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written ({error.strerror}); name another file") from error
