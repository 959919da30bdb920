"""Why each part is or is not chosen: who asked for it, and who overrode that."""

from __future__ import annotations

from collections import defaultdict

from sgframe.assembly.assemble import BLOCK, Configuration, blocked_by
from sgframe.assembly.choosing import SHADOWED
from sgframe.assembly.plugins import Plugin, Plugins
from sgframe.assembly.providers import Seam
from sgframe.assembly.sources import COMMAND_LINE
from sgframe_cli.options import CommandLine
from sgframe_cli.origins import asked_for, located

Part = tuple[Seam, str]


def reasons(configuration: Configuration, command_line: CommandLine) -> dict[Part, list[str]]:
    """Sentences by part; parts of which there is nothing to tell are left out."""
    found: defaultdict[Part, list[str]] = defaultdict(list)
    for seam in Seam:
        chosen = getattr(configuration.settings, seam.value)
        winner = _origin(configuration, seam.value)
        found[seam, chosen].append(f"chosen by {winner}")
        for name, origin in asked_for(command_line, seam.value):
            if origin != winner and name != chosen:
                found[seam, name].append(f"asked for by {origin}, which {winner} overrides")
    for name in configuration.settings.grammars[1:]:
        found[Seam.GRAMMAR, name].append(f"for requests that name it, by {_origin(configuration, 'more_grammars')}")
    for part, where in _in_shadow(configuration).items():
        found[part].append(f"runs in shadow, by {where}")
    for part, plugins in _offered_twice(configuration.plugins).items():
        found[part].append(f"offered more than once, by {' and '.join(plugins)}: block all but one")
    return dict(found)


def why_blocked(plugin: Plugin, command_line: CommandLine) -> list[str]:
    """Who blocks ``plugin``; several may."""
    words = {plugin.name, plugin.distribution}
    found = [origin for blocked, origin in asked_for(command_line, "blocked") if words & set(blocked)]
    found += [f"{COMMAND_LINE} --plugin {BLOCK}{word}" for word in blocked_by(command_line.words) if word in words]
    return [f"blocked by {origin}" for origin in found]


def _origin(configuration: Configuration, key: str) -> str:
    return located(configuration.origins.get(key, "default"), key)


def _in_shadow(configuration: Configuration) -> dict[Part, str]:
    """What the shadow names; the rest of it is as in service."""
    shadow = configuration.settings.shadow
    return {
        (seam, name): _origin(configuration, f"shadow.{seam.value}")
        for seam in SHADOWED
        if (name := getattr(shadow, seam.value, None))
    }


def _offered_twice(plugins: Plugins) -> dict[Part, list[str]]:
    offers: defaultdict[Part, list[str]] = defaultdict(list)
    for offer in plugins.offers():
        offers[offer.seam, offer.name].append(str(offer.plugin))
    return {part: sources for part, sources in offers.items() if len(sources) > 1}
