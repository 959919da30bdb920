"""The records a plugin offers: which part, under what name, with which settings."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

API_VERSION = 1
"""Version of the plugin interface (hooks, providers, ABCs). Independent of the package's version. Plugins of this number and
the one before are accepted; docs/plugins.md has the rule by which it grows."""


class Seam(enum.Enum):
    """The places a plugin can fill; the value is the key in the settings and the command line's option."""

    CACHE = "cache"
    POLICY = "policy"
    GRAMMAR = "grammar"
    SPECULATOR = "speculator"
    TRANSPORT = "transport"
    SOURCE = "source"
    BACKEND = "backend"
    LAUNCHER = "launcher"


class PluginSettings(BaseModel):
    """Base of every part's settings table, ``[plugin.NAME]``. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Provider:
    """One part on offer.

    Attributes:
        name: what ``--plugin`` and the settings call it; lower case letters, digits and hyphens.
        target: ``"module:Class"``, imported only once the part is chosen, so that listing stays quick.
        summary: one line for ``sgframe plugins``.
        settings: the model of its settings table. Must be importable by its module and name.
        requires: modules that must be installed for it to work.
        extra: the extra of its own distribution that installs them, if there is one.
        api: the API_VERSION it was written for, as a number: what it was then, not what is installed now.
    """

    name: str
    target: str
    summary: str = ""
    settings: type[PluginSettings] = PluginSettings
    requires: tuple[str, ...] = ()
    extra: str = ""
    api: int = 1
