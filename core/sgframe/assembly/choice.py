"""A part that was chosen, as plain data: what a process needs to build it, with no plugin system in sight."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from sgframe.assembly.guard import describe
from sgframe.assembly.providers import PluginSettings, Seam
from sgframe.errors import ConfigError, PluginError
from sgframe.interfaces.backend import Backend
from sgframe.interfaces.cache import Cache
from sgframe.interfaces.grammar import Grammar
from sgframe.interfaces.launcher import Launcher
from sgframe.interfaces.policy import Policy
from sgframe.interfaces.source import ModelSource
from sgframe.interfaces.speculator import Speculator
from sgframe.interfaces.transport import Transport

CONTRACTS: Mapping[Seam, type] = {
    Seam.CACHE: Cache,
    Seam.POLICY: Policy,
    Seam.GRAMMAR: Grammar,
    Seam.SPECULATOR: Speculator,
    Seam.TRANSPORT: Transport,
    Seam.SOURCE: ModelSource,
    Seam.BACKEND: Backend,
    Seam.LAUNCHER: Launcher,
}


class Choice(msgspec.Struct, frozen=True):
    """One chosen part. Survives msgspec, JSON and pickle.

    Attributes:
        target: ``"module:Class"`` of the part.
        settings: its table as it was given, already validated once by ``settings_model``; JSON values only.
        settings_model: ``"module:Class"`` of the table's pydantic model.
        plugin: the plugin it came from, for error messages.
    """

    seam: Seam
    name: str
    target: str
    settings: dict[str, Any]
    settings_model: str
    plugin: str

    def build(self, **context: Any) -> Any:
        """Import the target and make the part, ``target(settings, **context)``.

        Raises PluginError, naming seam, name, target and plugin, whatever went wrong; a ConfigError that the part raises
        on purpose (BackendUnavailable, ModelError) passes as it is.
        """
        try:
            part = self.load()(self.validated(), **context)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # whatever a third party's constructor may raise
            raise PluginError(f"{self} cannot be built: {describe(error)}") from error
        return part

    def load(self) -> type:
        """The part's class. Raises PluginError when it cannot be imported or does not fill the seam."""
        try:
            target = load(self.target)
        except (Exception, SystemExit) as error:  # whatever a third party's import may raise
            raise PluginError(f"{self} cannot be imported: {describe(error)}") from error
        contract = CONTRACTS[self.seam]
        if not (isinstance(target, type) and issubclass(target, contract)):
            raise PluginError(f"{self} is not a {contract.__module__}.{contract.__qualname__}")
        if missing := sorted(getattr(target, "__abstractmethods__", ())):
            raise PluginError(f"{self} does not implement {', '.join(missing)}")
        return target

    def validated(self) -> PluginSettings:
        """The part's settings, defaults included."""
        model: type[PluginSettings] = load(self.settings_model)
        return validate(model, self.settings)

    @property
    def label(self) -> str:
        """Its name, and what was set of it, secrets masked: ``radix(eviction=slru)``."""
        given = self.validated().model_dump(mode="json", exclude_unset=True)
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in given.items())})" if given else self.name

    def __str__(self) -> str:
        return f"{self.seam.value} '{self.name}' ({self.target}) of {self.plugin}"


class ShadowChoice(msgspec.Struct, frozen=True):
    """The parts that run in shadow, beside those that serve."""

    cache: Choice
    policy: Choice


class Choices(dict[Seam, Choice]):
    """The part of every seam; ``shadow`` has those that run beside them, if any, ``grammars`` all that requests may name."""

    def __init__(
        self,
        parts: Mapping[Seam, Choice],
        shadow: ShadowChoice | None = None,
        grammars: Mapping[str, Choice] | None = None,
    ) -> None:
        super().__init__(parts)
        self.shadow = shadow
        self.grammars = dict(grammars or {})


def load(target: str) -> Any:
    """The object that ``"module:name"`` names. Raises what the import raises."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """``table`` in JSON's own types; TOML's dates and times become ISO text."""
    values: dict[str, Any] = json.loads(json.dumps(table, default=str))
    return values


def validate(model: type[PluginSettings], table: Mapping[str, Any]) -> PluginSettings:
    """``table`` as a ``model``, without guessing: true is no number and "5" neither. Raises pydantic's ValidationError."""
    return model.model_validate_json(json.dumps(plain(table)), strict=True)
