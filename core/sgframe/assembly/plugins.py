"""Which plugins there are, and what each of them offers.

Owns finding, blocking and loading. Never imports a part's target, never decides between offers, and never fails because
one plugin does: a broken plugin is listed with its reason. Each plugin gets a manager of its own, which is dropped with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pluggy

from sgframe.assembly.discovery import BUILTIN, Plugin, installed
from sgframe.assembly.guard import guarded
from sgframe.assembly.hooks import ACCEPTED_API, ask, open_manager
from sgframe.assembly.providers import Provider, Seam
from sgframe.errors import PluginError

if TYPE_CHECKING:
    import click

__all__ = [
    "ACCEPTED_API",
    "BUILTIN",
    "Broken",
    "Offer",
    "Plugin",
    "Plugins",
    "ask",
    "installed",
    "load_plugins",
    "open_manager",
]


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that could not be loaded."""

    plugin: Plugin
    reason: str

    @property
    def remedy(self) -> str:
        """What the user can do about it."""
        distribution, blocked = self.plugin.distribution, f"leave it out by --plugin no:{self.plugin.name}"
        return f"upgrade or uninstall {distribution}, or {blocked}" if distribution else blocked

    def __str__(self) -> str:
        return f"{self.plugin} failed: {self.reason}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Offer:
    """One part, and the plugin that offers it."""

    seam: Seam
    provider: Provider
    plugin: Plugin

    @property
    def name(self) -> str:
        """What the settings call the part."""
        return self.provider.name

    @property
    def obstacle(self) -> str:
        """Why it cannot be chosen here, or nothing: a required module is missing, or its API number is not accepted."""
        if self.provider.api not in ACCEPTED_API:
            return f"speaks plugin API {self.provider.api}, accepted are {ACCEPTED_API[0]} and {ACCEPTED_API[1]}"
        missing = [module for module in self.provider.requires if find_spec(module.partition(".")[0]) is None]
        return f"needs {', '.join(missing)}" if missing else ""

    def __str__(self) -> str:
        return f"{self.seam.value} '{self.name}' of {self.plugin}"


class Plugins:
    """Everything on offer, in a fixed order.

    Attributes:
        loaded: the plugins that work.
        broken: those that do not, with reasons.
        blocked: those that were blocked and therefore not imported.
        unmatched: words in the block list that block nothing.
    """

    def __init__(self, blocked: Collection[str] = ()) -> None:
        self.loaded: list[Plugin] = []
        self.broken: list[Broken] = []
        self.blocked: list[Plugin] = []
        self.unmatched: tuple[str, ...] = tuple(blocked)
        self._managers: list[tuple[Plugin, pluggy.PluginManager]] = []
        self._offers: list[Offer] = []

    def offers(self, seam: Seam | None = None) -> list[Offer]:
        """What is on offer for ``seam`` (for all seams if None), ordered by seam, name and plugin."""
        return [offer for offer in self._offers if seam in (None, offer.seam)]

    def add(self, plugin: Plugin) -> None:
        """Import the plugin and take in its offers, or note why that failed."""
        try:
            manager, offered = guarded(plugin, lambda: _look_into(plugin))
        except PluginError as error:
            self.broken.append(Broken(plugin, str(error)))
            return
        self.loaded.append(plugin)
        self._managers.append((plugin, manager))
        self._offers += [Offer(seam, provider, plugin) for seam, provider in offered]
        seams = list(Seam)
        self._offers.sort(key=lambda offer: (seams.index(offer.seam), offer.name, offer.plugin.name))

    def add_commands(self, cli: click.Group) -> None:
        """Let every plugin add its subcommands; one that fails is noted in ``broken``."""
        for plugin, manager in self._managers:
            try:
                guarded(plugin, partial(manager.hook.sgframe_commands, cli=cli))
            except PluginError as error:
                self.broken.append(Broken(plugin, f"sgframe_commands: {error}"))


def load_plugins(blocked: Collection[str] = (), plugins: Iterable[Plugin] | None = None) -> Plugins:
    """Load ``plugins`` (all that is built in or installed, if None), except the blocked.

    A word in ``blocked`` is a plugin's name or that of the distribution it came in. Never raises.
    """
    found = Plugins(blocked)
    for plugin in installed() if plugins is None else plugins:
        words = {plugin.name, plugin.distribution} & set(filter(None, blocked))
        if words:
            found.blocked.append(plugin)
            found.unmatched = tuple(word for word in found.unmatched if word not in words)
        else:
            found.add(plugin)
    return found


def _look_into(plugin: Plugin) -> tuple[pluggy.PluginManager, list[tuple[Seam, Provider]]]:
    manager = open_manager(plugin.load())
    return manager, ask(manager)
