"""Where plugins are found: a table of those built in, and the entry points of what is installed. Imports none of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, distributions, entry_points
from typing import Any

from sgframe.errors import PluginError

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
    "local": "sgframe_local",
    "lookup": "sgframe_lookup",
    "lpm": "sgframe_lpm",
    "priority": "sgframe_priority",
    "radix": "sgframe_radix",
    "ray": "sgframe_ray",
    "simulated": "sgframe_simulated",
    "xgrammar": "sgframe_xgrammar",
    "zmq": "sgframe_zmq",
}
"""Plugin name → hook module. Strings, so that core imports none of them and a bare checkout finds them all."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A hook module under its entry-point name. ``distribution`` and ``version`` are empty for what is built in.

    ``fault`` says why it need not be tried: what is installed of it cannot be read.
    """

    name: str
    module: str
    distribution: str = ""
    version: str = ""
    fault: str = ""

    @property
    def source(self) -> str:
        """Where it came from: ``built in`` or ``sgframe-foo 0.3.0``."""
        return f"{self.distribution} {self.version}".rstrip() if self.distribution else "built in"

    def load(self) -> Any:
        """Its hook module. Raises PluginError for an entry point that names none, else what the import raises."""
        if self.fault:
            raise PluginError(self.fault)
        if not EntryPoint.pattern.match(self.module):
            raise PluginError(f"its entry point must name a module, found {self.module!r}")
        point = EntryPoint(self.name, self.module, GROUP)
        try:
            return point.load()
        except ModuleNotFoundError as error:
            if not f"{point.module}.".startswith(f"{error.name}."):
                raise
            raise PluginError(f"its entry point names the module {point.module}, which is not there") from None

    def __str__(self) -> str:
        return f"plugin '{self.name}' ({self.source})"


def installed() -> list[Plugin]:
    """The built-in plugins, and those of installed distributions; by name. Never raises."""
    plugins = [Plugin(name, module) for name, module in BUILTIN.items()]
    try:
        plugins += [_announced(point, point.dist) for point in entry_points(group=GROUP)]
    except Exception:  # a single distribution that cannot be read, be it a plugin's or not, fails them all
        plugins += _one_by_one()
    return sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution))


def _one_by_one() -> Iterator[Plugin]:
    """What ``entry_points`` would give, with a faulty plugin in the place of each distribution that cannot be read."""
    seen = set()
    for distribution in distributions():
        folder = _folder(distribution)
        try:
            points = distribution.entry_points.select(group=GROUP)
        except Exception as error:
            yield Plugin(folder, "", folder, fault=f"its entry points cannot be read ({error}); install it anew")
            continue
        announced = [_announced(point, distribution) for point in points]
        if announced and announced[0].distribution not in seen:  # the first one on the path counts
            seen.add(announced[0].distribution)
            yield from announced


def _announced(point: EntryPoint, distribution: Any) -> Plugin:
    """Without a name the metadata could not even tell whom to blame: then the folder does."""
    name = version = ""
    with suppress(Exception):  # which of them is raised for what is missing depends on the version of Python
        name, version = distribution.metadata["Name"] or "", distribution.metadata["Version"] or ""
    if name and version:
        return Plugin(point.name, point.value, name, version)
    fault = "its metadata lacks name or version; install it anew"
    return Plugin(point.name, point.value, name or _folder(distribution), version, fault)


def _folder(distribution: Any) -> str:
    """The name of its folder of metadata, such as ``sgframe_foo-0.3.0.dist-info``."""
    path = getattr(distribution, "_path", None)  # there is no public way to it
    return getattr(path, "name", "a distribution without a name")
