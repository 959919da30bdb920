"""The options that say what an answer must match."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from sgframe.constraints import Constraint

F = TypeVar("F", bound=Callable[..., Any])


def constraint_options(command: F) -> F:
    """Add ``--json-schema``, ``--regex`` and ``--choice``; the command gets them as one argument, ``constraint``."""

    @wraps(command)
    def collect(*, json_schema: Path | None, regex: str | None, choice: tuple[str, ...], **options: Any) -> Any:
        return command(constraint=_constraint(json_schema, regex, choice), **options)

    decorated: Any = collect
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


_OPTIONS = [
    click.option(
        "--json-schema",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The answer is JSON that matches the schema in FILE.",
    ),
    click.option("--regex", metavar="REGEX", help="The whole answer matches this regular expression (ECMA-262)."),
    click.option("--choice", multiple=True, metavar="TEXT", help="The answer is one of these. Repeatable."),
]


def _constraint(json_schema: Path | None, regex: str | None, choice: tuple[str, ...]) -> Constraint | None:
    found = []
    if json_schema is not None:
        found.append(Constraint("json_schema", _schema_text(json_schema)))
    if regex is not None:
        found.append(Constraint("regex", regex))
    if choice:
        found.append(Constraint("choice", msgspec.json.encode(choice).decode()))
    if len(found) > 1:
        raise click.UsageError("--json-schema, --regex and --choice exclude each other: give one of them")
    return found[0] if found else None


def _schema_text(file: Path) -> str:
    try:
        schema = msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"--json-schema: {file} is not valid JSON: {error}") from None
    return msgspec.json.encode(schema).decode()
