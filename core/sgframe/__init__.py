"""sgframe serves large language models; every part is a plugin, and every shared prefix is computed once.

A plugin author needs ``hookimpl``, ``Provider`` and ``PluginSettings`` from here, and the ABC of a seam from
``sgframe.interfaces``. A user of the engine needs ``Engine`` and ``SamplingParams``. Names are imported when first used,
so that ``import sgframe`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sgframe.assembly.hookspecs import hookimpl as hookimpl
    from sgframe.assembly.providers import PluginSettings as PluginSettings
    from sgframe.assembly.providers import Provider as Provider
    from sgframe.front.engine import Engine as Engine
    from sgframe.sampling import SamplingParams as SamplingParams

__version__ = "0.1.0"

_HOMES = {
    "Engine": "sgframe.front.engine",
    "PluginSettings": "sgframe.assembly.providers",
    "Provider": "sgframe.assembly.providers",
    "SamplingParams": "sgframe.sampling",
    "hookimpl": "sgframe.assembly.hookspecs",
}
__all__ = ["Engine", "PluginSettings", "Provider", "SamplingParams", "__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sgframe' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
