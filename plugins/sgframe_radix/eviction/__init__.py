"""Eviction strategies of the radix cache, one a module; ``load_strategy`` makes the one that the settings name.

A strategy of your own is a subclass of ``EvictionStrategy``, named in the settings as ``module:Class``.
"""

from __future__ import annotations

from pkgutil import resolve_name

from sgframe.errors import ConfigError
from sgframe.interfaces.cache import Clock
from sgframe_radix import STRATEGIES
from sgframe_radix.eviction.strategy import EvictionStrategy

__all__ = ["EvictionStrategy", "load_strategy"]


def load_strategy(name: str, clock: Clock) -> EvictionStrategy:
    """The strategy ``name``, which is built in or ``module:Class``. Raises ConfigError when it cannot be had."""
    try:
        strategy = resolve_name(STRATEGIES.get(name, name))
    except Exception as error:  # whatever a third party's import may raise
        raise ConfigError(
            f"the eviction strategy '{name}' cannot be imported: {type(error).__name__}: {error}; "
            f"install it, correct the name, or choose from {', '.join(STRATEGIES)}"
        ) from error
    if not (isinstance(strategy, type) and issubclass(strategy, EvictionStrategy)):
        raise ConfigError(
            f"the eviction strategy '{name}' must be a subclass of {__name__}.EvictionStrategy, found {strategy!r}"
        )
    try:
        return strategy(clock)
    except Exception as error:  # whatever a third party's constructor may raise
        raise ConfigError(
            f"the eviction strategy '{name}' cannot be built: {type(error).__name__}: {error}; "
            f"correct its class, or choose from {', '.join(STRATEGIES)}"
        ) from error
