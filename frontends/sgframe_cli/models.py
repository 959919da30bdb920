"""``sgframe models``: what the chosen model source knows by short names."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from sgframe.assembly.providers import Seam
from sgframe.interfaces.source import CatalogueEntry, ModelSource
from sgframe_cli.columns import columns
from sgframe_cli.options import CommandLine, settings_options

_HEADINGS = ("NAME", "SIZE", "LICENCE", "CACHED", "SUMMARY")


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def models(command_line: CommandLine, as_json: bool) -> None:
    """List the models known by short names.

    Folders, .gguf files and hub ids work as --model too.
    """
    source: ModelSource = command_line.configure().choose()[Seam.SOURCE].build()
    entries = source.catalogue()
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
    else:
        click.echo(columns([_HEADINGS, *map(_row, entries)]))


def _row(entry: CatalogueEntry) -> tuple[str, ...]:
    size = f"{entry.download_bytes / 2**20:,.0f} MiB"
    return entry.name, size, entry.licence, "yes" if entry.cached else "no", entry.summary
