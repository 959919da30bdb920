"""Offers the cache ``radix``: a token-granular radix tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from pydantic import Field, NonNegativeInt, field_validator

from sgframe import PluginSettings, Provider, hookimpl

STRATEGIES: Mapping[str, str] = {
    "adaptive": "sgframe_radix.eviction.adaptive:Adaptive",
    "fifo": "sgframe_radix.eviction.fifo:FIFO",
    "lfu": "sgframe_radix.eviction.lfu:LFU",
    "lru": "sgframe_radix.eviction.lru:LRU",
    "priority": "sgframe_radix.eviction.priority:Priority",
    "s3fifo": "sgframe_radix.eviction.s3fifo:S3FIFO",
    "slru": "sgframe_radix.eviction.slru:SLRU",
}
"""Name → target of the built-in eviction strategies."""


class RadixSettings(PluginSettings):
    """The table ``[plugin.radix]``."""

    eviction: str = Field(
        default="lru",
        description=f"Which strategy names the next leaf to forget: {', '.join(STRATEGIES)}, or module:Class of your own",
    )
    ghost_tokens: NonNegativeInt = Field(
        default=2**22,
        description="How many evicted tokens are remembered (not their KV; four bytes each), to tell a miss that was "
        "evicted from one that was never seen, and to let strategies learn; the oldest are forgotten first",
    )

    @field_validator("eviction")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in STRATEGIES and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
            close = get_close_matches(name, STRATEGIES, n=1)
            advice = f" (did you mean '{close[0]}'?)" if close else ""
            raise ValueError(f"must be {', '.join(STRATEGIES)} or 'module:Class' of your own{advice}")
        return name


@hookimpl
def sgframe_caches() -> list[Provider]:
    return [
        Provider(
            name="radix",
            target="sgframe_radix.cache:RadixCache",
            summary="token-granular radix tree; leaves are evicted by a strategy of choice",
            settings=RadixSettings,
        )
    ]
