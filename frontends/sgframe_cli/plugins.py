"""``sgframe plugins``: every part on offer, where it comes from, and what keeps it from running. Never fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

import sgframe
from sgframe.assembly.assemble import Configuration, blocked_by
from sgframe.assembly.devices import probe_offer
from sgframe.assembly.plugins import Offer, Plugin, Plugins, load_plugins
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError
from sgframe_cli.columns import columns
from sgframe_cli.options import CommandLine, settings_options

_HEADINGS = ("", "SEAM", "NAME", "PLUGIN", "SOURCE", "STATE", "ABOUT")


@click.command()
@settings_options
@click.option("--explain", is_flag=True, help="Tell of each part what chose it, or what overrode a choice of it.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def plugins(command_line: CommandLine, explain: bool, as_json: bool) -> None:
    """List the parts on offer and the plugins they come from.

    A star marks the parts that these settings choose.
    """
    look = _look(command_line)
    rows = _rows(look, command_line, explain)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif explain:
        click.echo("\n".join(_explained(rows)))
    else:
        click.echo(columns([_HEADINGS, *map(_line, rows)]))
    if look.problem:
        click.echo(f"Note: these settings cannot be used:\n{look.problem}", err=True)


@dataclass(frozen=True, slots=True)
class _Look:
    """The plugins, what the settings say if they can be read, and what is wrong with them."""

    plugins: Plugins
    configuration: Configuration | None
    problem: str

    def chooses(self, offer: Offer) -> bool:
        return self.configuration is not None and getattr(self.configuration.settings, offer.seam.value) == offer.name


def _look(command_line: CommandLine) -> _Look:
    try:
        configuration = command_line.configure()
    except ConfigError as error:
        return _Look(load_plugins(blocked_by(command_line.words)), None, str(error))
    try:
        configuration.choose()
    except ConfigError as error:
        return _Look(configuration.plugins, configuration, str(error))
    return _Look(configuration.plugins, configuration, "")


def _rows(look: _Look, command_line: CommandLine, explain: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"seam": offer.seam.value, "name": offer.name, "summary": offer.provider.summary, "chosen": look.chooses(offer)}
        | _origin(offer.plugin)
        | _state(offer)
        for offer in look.plugins.offers()
    ]
    nothing = {"seam": "", "name": "", "summary": "", "chosen": False}
    for broken in look.plugins.broken:
        rows.append(
            nothing | _origin(broken.plugin) | {"state": "broken", "reason": f"{broken.reason}; {broken.remedy}"}
        )
    for plugin in look.plugins.blocked:
        rows.append(nothing | _origin(plugin) | {"state": "blocked", "reason": ""})
    return [row | told for row, told in zip(rows, _told(look, command_line), strict=True)] if explain else rows


def _told(look: _Look, command_line: CommandLine) -> Iterator[dict[str, Any]]:
    """What ``--explain`` adds to each row: distribution, version, and why."""
    from sgframe_cli.reasons import reasons, why_blocked  # noqa: PLC0415 (a plain list is to be quick)

    known = look.configuration is not None
    parts = reasons(look.configuration, command_line) if look.configuration else {}
    for offer in look.plugins.offers():
        yield _distribution(offer.plugin) | {"why": parts.get((offer.seam, offer.name), [])}
    for broken in look.plugins.broken:
        yield _distribution(broken.plugin) | {"why": []}
    for plugin in look.plugins.blocked:
        yield _distribution(plugin) | {"why": why_blocked(plugin, command_line) if known else []}


def _origin(plugin: Plugin) -> dict[str, str]:
    return {"plugin": plugin.name, "source": plugin.source}


def _distribution(plugin: Plugin) -> dict[str, str]:
    if not plugin.distribution:
        return {"distribution": "sgframe", "version": sgframe.__version__}
    return {"distribution": plugin.distribution, "version": plugin.version}


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


def _explained(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each part and, below it, one for each thing to know of it; parts by seam, then what offers nothing."""
    names = [row["name"] or row["plugin"] for row in rows]
    sources = [f"{row['distribution']} {row['version']}" for row in rows]
    wide = max(map(len, names), default=0), max(map(len, sources), default=0)
    seam = None
    for row, name, source in zip(rows, names, sources, strict=True):
        if row["seam"] != seam:
            seam = row["seam"]
            yield seam or "plugins that offer nothing"
        yield f"{'*' if row['chosen'] else '':>3} {name:<{wide[0]}}  {source:<{wide[1]}}  {row['state']}"
        yield from (f"{'':8}{text}" for text in (*row["why"], row["reason"]) if text)
