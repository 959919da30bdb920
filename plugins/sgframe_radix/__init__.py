"""Offers the cache ``radix``: a token-granular radix tree."""

from __future__ import annotations

from pydantic import NonNegativeInt

from sgframe import PluginSettings, Provider, hookimpl


class RadixSettings(PluginSettings):
    """``ghost_tokens``: how many evicted tokens are remembered (not their KV), to tell a miss that was evicted from one
    that was never seen. At the bound the oldest are forgotten and count as never seen."""

    ghost_tokens: NonNegativeInt = 2**20


@hookimpl
def sgframe_caches() -> list[Provider]:
    return [
        Provider(
            name="radix",
            target="sgframe_radix.cache:RadixCache",
            summary="token-granular radix tree; evicts the least recently leased leaves first",
            settings=RadixSettings,
        )
    ]
