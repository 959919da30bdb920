"""The policy ``fcfs``: order of arrival."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.assembly.providers import PluginSettings
from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting


class FirstComeFirstServed(Policy):
    """Order of arrival. Bound: no request is ever overtaken, 0 tokens."""

    def __init__(self, settings: PluginSettings) -> None:
        """Has nothing to set."""

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        return list(waiting)
