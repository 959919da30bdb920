"""Which plugins there are, and what each of them offers.

Owns finding, blocking and loading. Never imports a part's target, never decides between offers, and never fails because
one plugin does: a broken plugin is listed with its reason. Each plugin gets a manager of its own, which is dropped with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pluggy

from sgframe.assembly import hookspecs
from sgframe.assembly.hints import nearest
from sgframe.assembly.providers import API_VERSION, PluginSettings, Provider, Seam
from sgframe.errors import PluginError

if TYPE_CHECKING:
    import click

GROUP = "sgframe"
"""The entry-point group in which third parties announce their hook modules."""

BUILTIN: Mapping[str, str] = {
    "ascend": "sgframe_ascend",
    "basic": "sgframe_basic",
    "cpu": "sgframe_cpu",
    "cuda": "sgframe_cuda",
    "dfs-weight": "sgframe_dfs_weight",
    "fsm": "sgframe_fsm",
    "hash-chain": "sgframe_hash_chain",
    "hf": "sgframe_hf",
    "llguidance": "sgframe_llguidance",
    "lookup": "sgframe_lookup",
    "lpm": "sgframe_lpm",
    "priority": "sgframe_priority",
    "radix": "sgframe_radix",
    "simulated": "sgframe_simulated",
    "xgrammar": "sgframe_xgrammar",
    "zmq": "sgframe_zmq",
}
"""Plugin name → hook module. Strings, so that core imports none of them and a bare checkout finds them all."""

HOOKS: Mapping[Seam, str] = {
    Seam.CACHE: "sgframe_caches",
    Seam.POLICY: "sgframe_policies",
    Seam.GRAMMAR: "sgframe_grammars",
    Seam.SPECULATOR: "sgframe_speculators",
    Seam.TRANSPORT: "sgframe_transports",
    Seam.SOURCE: "sgframe_model_sources",
    Seam.BACKEND: "sgframe_backends",
}
ACCEPTED_API = (API_VERSION - 1, API_VERSION)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A hook module under its entry-point name. ``distribution`` and ``version`` are empty for what is built in."""

    name: str
    module: str
    distribution: str = ""
    version: str = ""

    @property
    def source(self) -> str:
        """Where it came from: ``built in`` or ``sgframe-foo 0.3.0``."""
        return f"{self.distribution} {self.version}" if self.distribution else "built in"

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({self.source})"


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that could not be loaded."""

    plugin: Plugin
    reason: str

    def __str__(self) -> str:
        return f"{self.plugin} failed: {self.reason}"


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
            module = EntryPoint(plugin.name, plugin.module, GROUP).load()
            manager = open_manager(module)
            found = [Offer(seam, provider, plugin) for seam, provider in ask(manager)]
        except Exception as error:  # whatever a third party's import may raise
            self.broken.append(Broken(plugin, f"{type(error).__name__}: {error}"))
            return
        self.loaded.append(plugin)
        self._managers.append((plugin, manager))
        self._offers += found
        seams = list(Seam)
        self._offers.sort(key=lambda offer: (seams.index(offer.seam), offer.name, offer.plugin.name))

    def add_commands(self, cli: click.Group) -> None:
        """Let every plugin add its subcommands; one that fails is moved to ``broken``."""
        for plugin, manager in self._managers:
            try:
                manager.hook.sgframe_commands(cli=cli)
            except Exception as error:  # whatever a third party's hook may raise
                self.broken.append(Broken(plugin, f"sgframe_commands: {type(error).__name__}: {error}"))


def load_plugins(blocked: Collection[str] = (), plugins: Iterable[Plugin] | None = None) -> Plugins:
    """Load ``plugins`` (all that is built in or installed, if None), except the blocked.

    A word in ``blocked`` is a plugin's name or that of the distribution it came in. Never raises.
    """
    found = Plugins(blocked)
    for plugin in installed() if plugins is None else plugins:
        words = {plugin.name, plugin.distribution} & set(blocked)
        if words:
            found.blocked.append(plugin)
            found.unmatched = tuple(word for word in found.unmatched if word not in words)
        else:
            found.add(plugin)
    return found


def installed() -> list[Plugin]:
    """The built-in plugins, and those of installed distributions; by name."""
    plugins = [Plugin(name, module) for name, module in BUILTIN.items()]
    for point in entry_points(group=GROUP):
        assert point.dist is not None
        plugins.append(Plugin(point.name, point.value, point.dist.name, point.dist.version))
    return sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution))


def open_manager(module: Any) -> pluggy.PluginManager:
    """A manager that holds this hook module alone.

    Raises PluginError for a misspelt hook, and when the module implements none.
    """
    manager = pluggy.PluginManager("sgframe")
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    known = [*HOOKS.values(), "sgframe_commands"]
    callers = {caller.name for caller in manager.get_hookcallers(module) or ()}
    if unknown := sorted(callers - set(known)):
        raise PluginError(f"there is no hook '{unknown[0]}'{nearest(unknown[0], known)}")
    if not callers:
        unmarked = [name for name in known if hasattr(module, name)]
        raise PluginError(f"put @hookimpl on {', '.join(unmarked)}" if unmarked else "it implements no hook of sgframe")
    manager.check_pending()
    return manager


def ask(manager: pluggy.PluginManager) -> list[tuple[Seam, Provider]]:
    """What the plugin in ``manager`` offers. Raises PluginError for a provider that cannot be right."""
    offered = []
    for seam, hook in HOOKS.items():
        for answer in getattr(manager.hook, hook)():
            offered += [(seam, _checked(provider, hook)) for provider in answer]
    return offered


def _checked(provider: Any, hook: str) -> Provider:
    if not isinstance(provider, Provider):
        raise PluginError(f"{hook} must give Provider records, found {provider!r}")
    if not _NAME.fullmatch(provider.name):
        raise PluginError(f"{hook}: the name {provider.name!r} must be lower case letters, digits and hyphens")
    if not _TARGET.fullmatch(provider.target):
        raise PluginError(f"{hook}: the target of '{provider.name}' must be 'module:Class', found {provider.target!r}")
    if not (isinstance(provider.settings, type) and issubclass(provider.settings, PluginSettings)):
        raise PluginError(f"{hook}: the settings of '{provider.name}' must subclass PluginSettings")
    return provider
