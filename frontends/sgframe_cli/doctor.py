"""``sgframe doctor``: looks at this machine with the eyes of a server that is to be started with these settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter

import click

from sgframe.assembly.assemble import Configuration
from sgframe.assembly.choice import Choices
from sgframe.assembly.plugins import load_plugins
from sgframe.assembly.settings import Settings
from sgframe.errors import ConfigError
from sgframe_cli.checks.finding import Finding, State
from sgframe_cli.checks.machine import look_at_machine
from sgframe_cli.checks.model import look_at_model
from sgframe_cli.checks.places import look_at_places
from sgframe_cli.checks.service import look_at_devices, look_at_packages, look_at_parts, look_at_plugins
from sgframe_cli.options import CommandLine, settings_options

UNHEALTHY = 1


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(command_line: CommandLine, as_json: bool) -> None:
    """Say what would make serving fail, and what to do about each.

    Takes the options of serve. Starts nothing, fetches nothing. Exits with 1 if a server with these settings could not start
    or serve here, else with 0; warnings do not count.
    """
    findings = list(examine(command_line))
    faults = sum(finding.state is State.FAULT for finding in findings)
    if as_json:
        rows = [_plain(finding) for finding in findings]
        click.echo(json.dumps({"healthy": not faults, "findings": rows}, indent=2))
    else:
        click.echo(_written(findings))
        click.echo(_verdict(findings, faults))
    sys.exit(UNHEALTHY if faults else 0)


def examine(command_line: CommandLine) -> Iterator[Finding]:
    """Everything that is found; with settings that cannot be used, the machine with those that are the default."""
    try:
        configuration = command_line.configure()
    except ConfigError as error:
        yield Finding("settings", "read", str(error), State.FAULT)
        yield from look_at_machine(Settings.model_validate({}))
        yield from look_at_plugins(load_plugins())
        return
    yield from look_at_machine(configuration.settings)
    yield from look_at_plugins(configuration.plugins)
    try:
        choices = configuration.choose()
    except ConfigError as error:
        yield Finding("settings", "parts", str(error), State.FAULT)
        return
    yield from _service(configuration, choices)


def _service(configuration: Configuration, choices: Choices) -> Iterator[Finding]:
    settings, plugins = configuration.settings, configuration.plugins
    yield from look_at_packages(choices, plugins)
    yield from look_at_devices(configuration, choices)
    parts = list(look_at_parts(settings, choices))
    yield from parts
    yield from look_at_places(choices, plugins)
    if all(finding.state is not State.FAULT for finding in parts if finding.area == "parts"):
        yield from look_at_model(settings, choices)


def _plain(finding: Finding) -> dict[str, str]:
    return {**asdict(finding), "state": finding.state.value}


def _written(findings: Iterable[Finding]) -> str:
    lines = []
    for area, group in groupby(findings, attrgetter("area")):
        lines.append(area)
        for finding in group:
            first, *rest = f"{finding.subject}: {finding.found}".splitlines()
            lines.append(f"  {finding.state.value:<8}{first}")
            lines += [f"{'':10}{line}" for line in rest]
            lines += [f"{'':10}→ {finding.remedy}"] if finding.remedy else []
    return "\n".join(lines)


def _verdict(findings: Iterable[Finding], faults: int) -> str:
    warnings = sum(finding.state is State.WARNING for finding in findings)
    also = f"; {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
    if faults:
        return f"\nA server with these settings would fail here: {faults} {'fault' if faults == 1 else 'faults'}{also}."
    return f"\nNothing was found that would make a server with these settings fail here{also}."
