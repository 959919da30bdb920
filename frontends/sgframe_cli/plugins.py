"""``sgframe plugins``: every part on offer, where it comes from, and what keeps it from running. Never fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from sgframe.assembly.assemble import blocked_by
from sgframe.assembly.devices import probe_offer
from sgframe.assembly.plugins import Offer, Plugin, Plugins, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError
from sgframe_cli.columns import columns
from sgframe_cli.options import CommandLine, settings_options

_HEADINGS = ("", "SEAM", "NAME", "PLUGIN", "SOURCE", "STATE", "ABOUT")


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def plugins(command_line: CommandLine, as_json: bool) -> None:
    """List the parts on offer and the plugins they come from.

    A star marks the parts that these settings choose.
    """
    found, chosen, problem = _look(command_line)
    rows = list(_rows(found, chosen))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(columns([_HEADINGS, *map(_line, rows)]))
    if problem:
        click.echo(f"Note: these settings cannot be used:\n{problem}", err=True)


def _look(command_line: CommandLine) -> tuple[Plugins, dict[str, str], str]:
    """The plugins, the name chosen for each seam, and what is wrong with the settings."""
    try:
        configuration = command_line.configure()
    except ConfigError as error:
        return load_plugins(blocked_by(command_line.words)), {}, str(error)
    chosen = {seam.value: getattr(configuration.settings, seam.value) for seam in Seam}
    try:
        configuration.choose()
    except ConfigError as error:
        return configuration.plugins, chosen, str(error)
    return configuration.plugins, chosen, ""


def _rows(found: Plugins, chosen: dict[str, str]) -> Iterator[dict[str, Any]]:
    for offer in found.offers():
        part = {"seam": offer.seam.value, "name": offer.name, "summary": offer.provider.summary}
        yield part | {"chosen": chosen.get(offer.seam.value) == offer.name} | _origin(offer.plugin) | _state(offer)
    nothing = {"seam": "", "name": "", "summary": "", "chosen": False}
    for broken in found.broken:
        yield nothing | _origin(broken.plugin) | {"state": "broken", "reason": broken.reason}
    for plugin in found.blocked:
        yield nothing | _origin(plugin) | {"state": "blocked", "reason": ""}


def _origin(plugin: Plugin) -> dict[str, str]:
    return {"plugin": plugin.name, "source": plugin.source}


def _state(offer: Offer) -> dict[str, str]:
    """``ok``, or why the part cannot be chosen or, for a backend, cannot run on this machine."""
    if offer.obstacle or offer.seam is not Seam.BACKEND:
        return {"state": offer.obstacle or "ok", "reason": ""}
    found = probe_offer(offer)
    return {"state": "ok" if found.usable else "cannot run here", "reason": found.reason}


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    about = ": ".join(text for text in (row["summary"], row["reason"]) if text)
    star = "*" if row["chosen"] else ""
    return star, row["seam"], row["name"], row["plugin"], row["source"], row["state"], about
