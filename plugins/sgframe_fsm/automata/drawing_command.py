"""``sgframe grammar draw``: a picture of what a constraint is compiled to, before and after compression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import click

from sgframe.constraints import Constraint, Whitespace
from sgframe.errors import ConfigError, RequestError
from sgframe_fsm.automata.automaton import Automaton, compress, explore
from sgframe_fsm.automata.drawing.formats import dot, require_format, svg, write_png
from sgframe_fsm.automata.drawing.picture import picture_of, stacked
from sgframe_fsm.automata.minimising import minimise
from sgframe_fsm.compiling import compile_constraint

MOST_EXPLORED = 5_000
"""States of an automaton that may still be worth drawing when compressed."""
STAGES = ("raw", "minimised", "compressed", "both")


def add(cli: click.Group) -> None:
    """Add the group ``grammar`` to the command line."""
    cli.add_command(grammar)


@click.group()
def grammar() -> None:
    """Look at what constraints on an output are compiled to."""


@grammar.command()
@click.option("--regex", help="A regular expression that the whole output matches.")
@click.option("--json-schema", metavar="FILE|TEXT", help="A JSON Schema, or the file it stands in.")
@click.option("--choice", multiple=True, help="One of the texts that the output may be. Repeatable.")
@click.option(
    "--whitespace", type=click.Choice(get_args(Whitespace)), default="fixed", show_default=True, help="In JSON."
)
@click.option(
    "--stage",
    type=click.Choice(STAGES),
    default="both",
    show_default=True,
    help="raw: states as they are derived. both: minimised, and compressed below it.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("automaton.svg"),
    show_default=True,
    help="An .svg, .png or .dot file.",
)
def draw(
    regex: str | None,
    json_schema: str | None,
    choice: tuple[str, ...],
    whitespace: Whitespace,
    stage: str,
    output: Path,
) -> None:
    """Draw the automaton of a constraint. Edges are labelled with bytes; ␣ is a blank, a double ring may end the output."""
    require_format(output)
    try:
        automata = _automata(_constraint(regex, json_schema, choice, whitespace), stage)
        if output.suffix.lower() == ".dot":
            output.write_text(dot(automata), encoding="utf-8")
        else:
            picture = stacked([picture_of(automaton, title) for title, automaton in automata])
            if output.suffix.lower() == ".png":
                write_png(picture, output)
            else:
                output.write_text(svg(picture), encoding="utf-8")
    except RequestError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"--output: {output} cannot be written ({error.strerror}); name another file") from error
    click.echo(f"{output}: " + "; ".join(title for title, _ in automata))


def _constraint(regex: str | None, schema: str | None, choice: tuple[str, ...], whitespace: Whitespace) -> Constraint:
    if (regex is not None) + (schema is not None) + bool(choice) != 1:
        raise click.UsageError("say one of --regex, --json-schema and --choice")
    if regex is not None:
        return Constraint("regex", regex)
    if schema is not None:
        return Constraint("json_schema", _text(schema), whitespace)
    return Constraint("choice", json.dumps(choice))


def _text(file_or_text: str) -> str:
    """A schema begins with a brace or is a boolean; anything else is the name of a file."""
    if file_or_text.lstrip().startswith("{") or file_or_text in ("true", "false"):
        return file_or_text
    if not file_or_text.strip():
        raise ConfigError("--json-schema is empty; give a schema, or the file it stands in")
    try:
        return Path(file_or_text).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--json-schema: {file_or_text} cannot be read ({error.strerror}), and is no schema"
        ) from error


def _automata(constraint: Constraint, stage: str) -> list[tuple[str, Automaton]]:
    """What is to be drawn, with titles."""
    store, root, _ = compile_constraint(constraint)
    raw = explore(store, root, MOST_EXPLORED)
    if stage == "raw":
        return [(_title("raw", raw), raw)]
    minimised = minimise(raw)
    compressed = compress(minimised)
    shown = {"minimised": minimised, "compressed": compressed}
    return [(_title(name, automaton), automaton) for name, automaton in shown.items() if stage in (name, "both")]


def _title(name: str, automaton: Automaton) -> str:
    count = len(automaton)
    return f"{name}, {count} state{'s' if count > 1 else ''}"
