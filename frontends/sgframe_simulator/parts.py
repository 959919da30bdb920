"""Which policies and caches take part: chosen by name through sgframe's own assembly, so third parties' are found, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

from sgframe.assembly.assemble import configure
from sgframe.assembly.choice import Choice
from sgframe.assembly.providers import Seam
from sgframe.errors import ConfigError


class Pair(NamedTuple):
    """The parts of a run."""

    policy: Choice
    cache: Choice


@dataclass(frozen=True, slots=True)
class Shelf:
    """What to choose from: the parts' settings by part (``--set``), and plugins that are left out (``no:NAME``)."""

    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    words: Sequence[str] = ()

    def pairs(self, policies: Sequence[str], caches: Sequence[str], evictions: Sequence[str] = ()) -> list[Pair]:
        """Each policy with each cache, and that with each eviction strategy if its settings let it be chosen.

        Raises ConfigError, with what is on offer, for an unknown name or a wrong setting; and for a strategy or a setting
        that nobody reads.
        """
        if unread := sorted(self.tables.keys() - {*policies, *caches}):
            raise ConfigError(
                f"--set {unread[0]}.…: '{unread[0]}' is none of the policies and caches that are simulated"
            )
        pairs = [self._pair(policy, cache) for policy, cache in product(policies, caches)]
        if not evictions:
            return pairs
        if all(eviction_of(pair.cache) is None for pair in pairs):
            raise ConfigError(
                f"--eviction: nobody reads it: of the chosen caches ({', '.join(caches)}) none lets its strategy be chosen"
            )
        return [chosen for pair in pairs for chosen in self._each_eviction(pair, evictions)]

    def _each_eviction(self, pair: Pair, evictions: Sequence[str]) -> list[Pair]:
        policy, cache = pair.policy.name, pair.cache.name
        if eviction_of(pair.cache) is None:
            return [pair]
        if "eviction" in pair.cache.settings:
            raise ConfigError(f"--eviction and --set {cache}.eviction say the same thing: drop one")
        return [self._pair(policy, cache, eviction) for eviction in evictions]

    def _pair(self, policy: str, cache: str, eviction: str = "") -> Pair:
        """``eviction`` is the cache's strategy, if one is chosen for it."""
        tables = {part: dict(table) for part, table in self.tables.items() if part in (policy, cache)}
        origins = {}
        if eviction:
            tables.setdefault(cache, {})["eviction"] = eviction
            origins[f"plugin.{cache}.eviction"] = "--eviction"
        found = configure({"policy": policy, "cache": cache, "plugin": tables}, self.words)
        choices = replace(found, origins={**found.origins, **origins}).choose()
        return Pair(choices[Seam.POLICY], choices[Seam.CACHE])


def eviction_of(cache: Choice) -> str | None:
    """The eviction strategy that the cache's settings name; None if it has no such setting."""
    return getattr(cache.validated(), "eviction", None)
