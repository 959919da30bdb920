"""The hooks: one per seam, each collects the providers that plugins offer.

The order in which plugins answer is undefined and means nothing: the settings choose by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from sgframe.assembly.providers import Provider

if TYPE_CHECKING:
    import click

hookspec = pluggy.HookspecMarker("sgframe")
hookimpl = pluggy.HookimplMarker("sgframe")


@hookspec
def sgframe_caches() -> Iterable[Provider]:
    """Offer prefix caches; targets subclass ``sgframe.interfaces.cache.Cache``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_policies() -> Iterable[Provider]:
    """Offer scheduling policies; targets subclass ``sgframe.interfaces.policy.Policy``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_grammars() -> Iterable[Provider]:
    """Offer grammars; targets subclass ``sgframe.interfaces.grammar.Grammar``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_speculators() -> Iterable[Provider]:
    """Offer speculators; targets subclass ``sgframe.interfaces.speculator.Speculator``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_transports() -> Iterable[Provider]:
    """Offer transports; targets subclass ``sgframe.interfaces.transport.Transport``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_model_sources() -> Iterable[Provider]:
    """Offer model sources; targets subclass ``sgframe.interfaces.source.ModelSource``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_backends() -> Iterable[Provider]:
    """Offer device backends; targets subclass ``sgframe.interfaces.backend.Backend``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_launchers() -> Iterable[Provider]:
    """Offer launchers; targets subclass ``sgframe.interfaces.launcher.Launcher``. Called when plugins are listed."""
    return ()


@hookspec
def sgframe_commands(cli: click.Group) -> None:
    """Add subcommands to the ``sgframe`` command line. Called once, before an unknown subcommand is refused."""
